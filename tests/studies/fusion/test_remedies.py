"""The 2 × 2 of remedies: which arms are in it, planted causes, and its figure."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from finished_runs import write_run
from fusions import FFT
from isoscope.platform.config.load import Configuration
from isoscope.platform.figures.pictures import pictures
from isoscope.platform.figures.style import to_svg
from isoscope.platform.outputs import read_output
from isoscope.studies.arms.scores_on_test import results
from isoscope.studies.fusion.remedies import VIEWS, by_labels, design, labels, levels, remedies

ROOT = Path(__file__).parents[3]
OPTIONS: dict[str, Any] = {"confidence": 0.95, "power": 0.8, "margin": 0.02}
ARMS = {
    "plain": FFT,
    "unitary": FFT | {"magnitudes": "unit"},
    "residual": FFT | {"start": "residual"},
    "delta": FFT | {"start": "delta"},
    "both": FFT | {"magnitudes": "unit", "start": "delta"},
    "both_residual": FFT | {"magnitudes": "unit", "start": "residual"},
}


def study(root: Path, accuracy: dict[str, float], seeds: int = 5) -> list[Path]:
    """Arms of a given accuracy, each right on the easiest items."""
    ease = np.random.default_rng(0).random(300)
    return [
        write_run(
            root,
            *(arm, seed),
            right=ease + np.random.default_rng([seed, *arm.encode()]).normal(scale=0.05, size=300) > 1 - share,
            items=300,
            fusion=ARMS.get(arm, {"kind": "additive"}),
        )
        for arm, share in accuracy.items()
        for seed in range(seeds)
    ]


def made(folders: list[Path]) -> dict[str, pd.DataFrame]:
    return remedies(results(map(read_output, folders)), **OPTIONS)


def means_of(folders: list[Path]) -> dict[str, float]:
    return {
        arm: float(np.mean([run.scores["accuracy"] for run in runs.values()]))
        for arm, runs in results(map(read_output, folders)).items()
    }


def effect(found: dict[str, pd.DataFrame], name: str) -> Any:
    table = found["remedy_effects"]
    return next(table[(table["metric"] == "accuracy") & (table["effect"] == name)].itertuples())


def test_the_shipped_overlays_are_where_the_design_has_them() -> None:
    configuration = Configuration(ROOT)
    found = {}
    for file in sorted((ROOT / "variants/fusion").glob("*.yaml")):
        found[file.stem] = levels(configuration.overlay(file.relative_to(ROOT))["model"]["fusion"])
    of = {at: {name for name, one in found.items() if one == at} for at in set(found.values())}
    assert of[False, False] == {"fft", "fft_unit"}  # the second has other tables
    assert of[True, False] == {"fft_unitary"}
    assert of[False, True] == {"fft_residual", "fft_delta"}
    assert of[True, True] == {"fft_unitary_residual", "fft_unitary_delta"}


def documented() -> dict[str, tuple[str, str]]:
    """Overlay → the labels of the table in docs/fusions.md: magnitudes kept, identity readable."""
    found = {}
    for line in (ROOT / "docs/fusions.md").read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.replace("\\|", "").strip("|").split("|")]
        if len(cells) == 4 and cells[0].startswith("`fft"):
            names = re.findall(r"`(\w+)`", cells[0])
            names = [name if name.startswith("fft") else names[0].replace("_one", "") + name for name in names]
            found |= dict.fromkeys(names, (cells[2], cells[3]))
    return found


def test_the_labels_of_the_code_are_those_of_the_page() -> None:
    configuration = Configuration(ROOT)
    shown = documented()
    assert len(shown) == 14
    for name, expected in shown.items():
        assert labels(configuration.overlay(Path(f"variants/fusion/{name}.yaml"))["model"]["fusion"]) == expected, name
    assert labels({"kind": "additive"}) is None


def test_every_arm_with_whole_labels_is_in_the_design_by_labels() -> None:
    configuration = Configuration(ROOT)
    arms = {name: configuration.overlay(Path(f"variants/fusion/{name}.yaml")) for name in (*documented(), "additive")}
    assert {at: set(members) for at, members in by_labels(arms).items()} == {
        (False, False): {"fft", "fft_scaled"},
        (True, False): {"fft_unitary", "fft_phase", "fft_fractional", "fft_fractional_learned"},
        (False, True): {"fft_residual", "fft_delta"},
        (True, True): {"fft_unitary_residual", "fft_unitary_delta"},
    }


def test_the_design_is_balanced_and_agrees_in_all_else() -> None:
    def params(**fusion: Any) -> dict[str, Any]:
        return {"model": {"fusion": FFT | fusion, "encoder": {"init_std": 0.02}}, "training": {"epochs": 2}}

    arms = {"plain": params(), "unitary": params(magnitudes="unit")}
    arms |= {"delta": params(start="delta"), "both": params(start="delta", magnitudes="unit")}
    order = [(False, False), (True, False), (False, True), (True, True)]
    whole = {at: [arm] for at, arm in zip(order, arms, strict=True)}
    assert design(arms) == whole
    assert design({"residual": params(start="residual")} | arms) == whole, "no unitary arm has this start"
    tables = params()
    tables["model"]["encoder"]["init_std"] = 1.0
    assert design(arms | {"unit_tables": tables, "ignoring": params(token_type="ignore")}) == whole
    assert (True, True) not in design(
        arms | {"both": params(start="delta", magnitudes="unit", sources=["position", "word"])}
    )


def test_a_planted_cause_is_told_from_the_other(tmp_path: Path) -> None:
    hidden = {"additive": 0.8, "plain": 0.5, "unitary": 0.5, "residual": 0.78, "delta": 0.82}
    hidden |= {"both": 0.8, "both_residual": 0.8}
    folders = study(tmp_path / "hidden", hidden)
    found, own = made(folders), means_of(folders)
    assert effect(found, "identity readable").verdict == "holds"
    readable = (own["residual"] + own["delta"] + own["both"] + own["both_residual"]) / 4
    assert effect(found, "identity readable").mean == pytest.approx(readable - (own["plain"] + own["unitary"]) / 2)
    assert readable > 0.7
    assert effect(found, "magnitudes kept").verdict != "holds"
    lost = {"plain": 0.5, "unitary": 0.8, "delta": 0.5, "both": 0.8}
    found = made(study(tmp_path / "lost", lost))
    assert effect(found, "magnitudes kept").verdict == "holds"
    assert effect(found, "identity readable").verdict != "holds"


def test_arms_of_one_combination_are_averaged_and_others_left_out(tmp_path: Path) -> None:
    accuracy = {"additive": 0.9, "plain": 0.5, "unitary": 0.6, "residual": 0.7, "delta": 0.8, "both": 0.9}
    folders = study(tmp_path, accuracy | {"both_residual": 0.8})
    means, own = made(folders)["remedies"], means_of(folders)
    row = next(means[(means["metric"] == "accuracy") & means["readable"] & ~means["kept"]].itertuples())
    assert row.arms == "residual, delta"
    assert row.mean == pytest.approx((own["residual"] + own["delta"]) / 2)
    assert not means["arms"].str.contains("additive").any()


def test_a_metric_that_a_run_of_the_design_lacks_has_no_rows(tmp_path: Path) -> None:
    arms = results(map(read_output, study(tmp_path, {"plain": 0.5, "unitary": 0.6, "delta": 0.8, "both": 0.9})))
    scores = arms["delta"][2].scores
    lacking = {name: value for name, value in scores.items() if name != "f1"}
    other = arms | {"delta": arms["delta"] | {2: arms["delta"][2]._replace(scores=lacking)}}
    assert "f1" in scores
    for table in remedies(other, **OPTIONS).values():
        assert {*table["metric"]} == {*lacking}


@pytest.mark.parametrize("lacking", ["plain", "unitary", "both"])
def test_without_all_four_combinations_there_is_no_table(lacking: str, tmp_path: Path) -> None:
    accuracy = {"plain": 0.5, "unitary": 0.6, "delta": 0.8, "both": 0.9}
    del accuracy[lacking]
    assert made(study(tmp_path, accuracy)) == {}


def test_two_seeds_have_means_and_no_verdict_that_holds(tmp_path: Path) -> None:
    found = made(study(tmp_path, {"plain": 0.2, "unitary": 0.2, "delta": 0.9, "both": 0.9}, seeds=2))
    assert set(found["remedy_effects"]["verdict"]) == {"under-powered"}
    for one in pictures(VIEWS, found):
        to_svg(one.figure())
