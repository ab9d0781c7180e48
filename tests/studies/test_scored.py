"""Learning curves and confusion matrices show the given numbers, state n, and are reproducible."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from drawn import sticking_out
from finished_runs import write_run
from isoscope.base.metric import Metric
from isoscope.platform.figures.pictures import pictures
from isoscope.platform.figures.style import to_svg
from isoscope.studies.arms.views import CONFUSION, MOST, TRAINING, VIEWS, fewer
from isoscope.studies.curves import SEEDS, bands, curves

NO_SEEDS = pd.DataFrame(columns=SEEDS)
NO_METRICS = pd.DataFrame(columns=["objective", *Metric("loss").recorded])
ARMS = ("additive", "conv2d", "fft")


def made(root: Path, arms: tuple[str, ...] = ARMS, seeds: int = 3, **options: int) -> pd.DataFrame:
    return bands(curves([write_run(root, arm, seed, **options) for arm in arms for seed in range(seeds)]))


def curves_of(
    table: pd.DataFrame, by_seed: pd.DataFrame = NO_SEEDS, metrics: pd.DataFrame = NO_METRICS
) -> pd.DataFrame:
    form: Any = TRAINING.form
    found: pd.DataFrame = form.drawn(table, by_seed, metrics)
    return found


def test_the_caption_says_where_seeds_are_missing(tmp_path: Path) -> None:
    folders = [write_run(tmp_path, "fft", seed, epochs=epochs) for seed, epochs in enumerate((6, 4, 2))]
    assert fewer(bands(curves(folders))) == " Seeds left: fft 2 from epoch 3, fft 1 from epoch 5."
    assert fewer(made(tmp_path / "all")) == ""


def test_equal_tables_give_equal_bytes_in_any_process_and_for_any_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(tmp_path)
    table.to_csv(tmp_path / "bands.csv", index=False)
    NO_SEEDS.to_csv(tmp_path / "seeds.csv", index=False)
    NO_METRICS.to_csv(tmp_path / "metrics.csv", index=False)
    code = (
        "import sys, pandas as pd\n"
        "from isoscope.platform.figures.style import to_svg\n"
        "from isoscope.studies.arms.views import TRAINING\n"
        "sys.stdout.write(to_svg(TRAINING.form(*map(pd.read_csv, sys.argv[1:]))))"
    )
    command = [
        sys.executable,
        "-c",
        code,
        str(tmp_path / "bands.csv"),
        str(tmp_path / "seeds.csv"),
        str(tmp_path / "metrics.csv"),
    ]
    other = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    here = to_svg(TRAINING.form(table, NO_SEEDS, NO_METRICS))
    assert here == other
    assert "dc:date" not in here
    monkeypatch.setitem(__import__("matplotlib").rcParams, "font.size", 25.0)
    monkeypatch.setitem(__import__("matplotlib").rcParams, "axes.grid", True)
    assert to_svg(TRAINING.form(table, NO_SEEDS, NO_METRICS)) == here


@pytest.mark.parametrize(
    "objective, names, titles",
    [
        ("masked", ("loss", "accuracy"), ["Accuracy", "Loss (nats)"]),
        (
            *("alignment", ("loss", "error", "moved")),
            ["Squared error of the alignment", "Squared distance moved by the alignment"],
        ),
        ("a_plugin", ("loss", "score"), ["Score", "Loss"]),
    ],
)
def test_titles_and_units_follow_the_objective(objective: str, names: tuple[str, ...], titles: list[str]) -> None:
    metrics = pd.DataFrame([{"objective": objective, **Metric(name).recorded} for name in names])
    columns = {"arm": "one", "epoch": 1, "mean": 0.5, "sd": 0.1, "n": 2}
    table = pd.DataFrame([columns | {"metric": f"validation/{name}"} for name in names])
    found = curves_of(table, metrics=metrics)["quantity"].unique()
    assert [title.removesuffix(", per dimension") for title in found] == titles


def cells(table: pd.DataFrame) -> pd.DataFrame:
    form: Any = CONFUSION.form
    found: pd.DataFrame = form.drawn(table)
    return found


def test_an_absent_class_has_share_zero() -> None:
    rows = [("fft", 0, actual, predicted, 5 * (actual == "a")) for actual in "ab" for predicted in "ab"]
    table = pd.DataFrame(rows, columns=["arm", "seed", "actual", "predicted", "count"])
    assert cells(table)["share"].tolist() == [0.5, 0.5, 0.0, 0.0]


def many(count: int) -> pd.DataFrame:
    """Counts of classes: each right ten times; class 40 is taken for class 7, class 3 for class 41."""
    counts = np.diag(np.full(count, 10))
    counts[40, 7], counts[3, 41] = 9, 5
    rows = [(f"class {one}", f"class {other}", int(counts[one, other])) for one, other in np.ndindex(counts.shape)]
    return pd.DataFrame(rows, columns=["actual", "predicted", "count"]).assign(arm="fft", seed=0)


def test_of_many_classes_the_most_confused_are_drawn_and_the_rest_as_one() -> None:
    table = many(77)
    found = cells(table)
    names = found["actual"].unique().tolist()
    assert len(names) == MOST
    assert {"class 3", "class 7", "class 40", "class 41", "the other 68 classes"} <= set(names)
    assert found["count"].sum() == table["count"].sum(), "nothing is lost"
    one = found.set_index(["actual", "predicted"])
    assert one.loc[("class 40", "class 7"), "text"] == "0.47\n9"
    assert one.loc[("the other 68 classes",) * 2, "share"] == 1.0
    for k in range(50, 70):
        table.loc[(table["actual"] == f"class {k}") & (table["predicted"] == f"class {k + 1}"), "count"] = 1
    counts = cells(table).set_index(["actual", "predicted"])["count"]
    rest = table[~table["actual"].isin(kept := {*counts.index.levels[0]}) & ~table["predicted"].isin(kept)]
    right = rest.loc[rest["actual"] == rest["predicted"], "count"].sum()
    assert counts["the other 68 classes", "the other 68 classes"] == right == 680
    wrong = counts["the other 68 classes", "a wrong one of the others"]
    assert wrong == rest["count"].sum() - right > 10, "an error among the rest is no hit"
    assert "Of 77 classes, the 9 with most errors; the table has all." in CONFUSION.caption(table)  # type: ignore[operator]
    figure = CONFUSION.form(table)
    assert sticking_out(figure) == []
    sizes = {text.get_fontsize() for text in figure.axes[0].get_yticklabels()}
    assert min(sizes) >= 6


@pytest.mark.parametrize("arms, published", [(("additive", "fft-none"), True), (("masked-additive",), False)])
def test_learning_curves_follow_a_published_figure_where_fusions_are_compared(
    arms: tuple[str, ...], published: bool
) -> None:
    none = pd.DataFrame({"arm": [], "seed": []})
    found = {"bands": pd.DataFrame({"arm": arms}), "seeds": none, "metrics": none}
    (training, *_) = pictures(VIEWS[:1], found)
    assert training.remakes == ("Li 2025 (fusion), Figure 1" if published else None)
