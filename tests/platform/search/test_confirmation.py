"""A trial is judged on the test split, over seeds and sentences, by the rule of all verdicts."""

import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from isoscope.base.atomic_files import sealed_json
from isoscope.base.metric import Metric
from isoscope.metrics.matrix_scores import by_item
from isoscope.platform.report.search_section import _confirmed
from isoscope.platform.runs.lines import plain
from isoscope.platform.search.confirmation import Fresh, confirmation
from isoscope.platform.statistics.paired import Paired, paired_t, two_way_interval

OPTIONS = {"confidence": 0.95, "power": 0.8, "margin": 0.01}
ITEMS = 400


def run(folder: Path, seed: int, right: float, a_1: float, *, shared: int = 0) -> Fresh:
    """Predictions right with a probability, on sentences of which some are hard for all seeds alike."""
    draw, items = np.random.default_rng((seed, int(1000 * right))), np.random.default_rng(shared)
    label = np.random.default_rng(1).integers(0, 2, ITEMS)
    ease = items.uniform(-0.2, 0.2, ITEMS)
    hit = draw.random(ITEMS) < right + ease
    logits = np.where(hit[:, None] == (np.arange(2) == label[:, None]), 2.0, 0.0) + draw.normal(0, 0.1, (ITEMS, 2))
    predicted = logits.argmax(1)
    table = pd.DataFrame({"row": range(ITEMS), "label": label, "predicted": predicted})
    file = folder / f"{seed}-{right}.parquet"
    table.assign(logit_0=logits[:, 0], logit_1=logits[:, 1]).sample(frac=1.0, random_state=seed).to_parquet(file)
    loss = -(logits[np.arange(ITEMS), label] - np.log(np.exp(logits).sum(1))).mean()
    test = {"test/accuracy": float((predicted == label).mean()), "test/loss": float(loss)}
    cloud = {"validation/a_1": 0.9, "posthoc/untouched/a_1": a_1, "validation/bar_mean": 1.0 + a_1 / 10}
    return Fresh(test | cloud | {"validation/accuracy": 0.99}, by_item(pd.read_parquet(file)))


def arms(folder: Path, better: float, seeds: int = 5) -> tuple[list[Fresh], list[Fresh]]:
    default = [run(folder, seed, 0.7, 0.5 + 0.01 * seed) for seed in range(seeds)]
    return default, [run(folder, 100 + seed, 0.7 + better, 0.3 - 0.013 * seed) for seed in range(seeds)]


def seeds_alone(default: list[Fresh], chosen: list[Fresh], metric: str) -> Paired:
    """The paired t of a metric over seeds."""
    pairs = zip(default, chosen, strict=True)
    return paired_t([other.metrics[metric] - one.metrics[metric] for one, other in pairs], confidence=0.95)


def test_accuracy_and_loss_are_judged_over_seeds_and_test_sentences(tmp_path: Path) -> None:
    default, chosen = arms(tmp_path, 0.1)
    accuracy, loss = confirmation(["validation/accuracy", "validation/loss"], default, chosen, **OPTIONS)
    assert (accuracy["judged"], accuracy["by"], accuracy["n"]) == ("test/accuracy", "seeds and sentences", 5)
    alone = seeds_alone(default, chosen, "test/accuracy")
    assert accuracy["difference"] == pytest.approx(alone.mean)
    assert accuracy["p"] == alone.p
    names = [[f"{first + seed}-{right}" for seed in range(5)] for first, right in ((100, 0.7 + 0.1), (0, 0.7))]
    tables = [[pd.read_parquet(tmp_path / f"{name}.parquet").sort_values("row") for name in arm] for arm in names]
    right = [np.stack([t["predicted"].eq(t["label"]).to_numpy(dtype=float) for t in arm]) for arm in tables]
    assert (accuracy["low"], accuracy["high"]) == pytest.approx(two_way_interval(right[0] - right[1], confidence=0.95))
    assert accuracy["verdict"] == "holds"
    assert loss["judged"] == "test/loss"
    assert loss["low"] < loss["difference"] < loss["high"] < 0


@pytest.mark.parametrize("values, said", [((0.6, 0.65), "three seeds)"), ((0.6, math.nan, 0.65), " – over seeds; ")])
def test_a_score_that_is_no_number_is_read_by_the_page(tmp_path: Path, values: tuple[float, ...], said: str) -> None:
    old = [Fresh({"validation/spearman": 0.5, "test/spearman": 0.5 + seed / 100}) for seed in range(len(values))]
    new = [Fresh({"validation/spearman": 0.5, "test/spearman": value}) for value in values]
    rows = [*confirmation(["validation/spearman"], old, new, confidence=0.95, power=0.8, margin=0.02)]
    facts = {"trial": 3, "seeds": [5, 6], "rows": rows, "believed": {"validation/spearman": 0.7}, "digest": "5ea2c4"}
    (tmp_path / "confirmed.json").write_text(sealed_json(plain(facts)), "utf-8")
    assert _confirmed(tmp_path / "confirmed.json", "another search, of the same name or not") is None
    found = _confirmed(tmp_path / "confirmed.json", "5ea2c4")
    assert found is not None
    (finding,) = found["findings"]
    assert said in finding["text"]
    assert "nan" not in finding["text"].lower()


def test_a_trial_that_was_lucky_on_validation_is_not_confirmed(tmp_path: Path) -> None:
    """Its validation accuracy is the default's plus a lot; on test nothing is left of it."""
    default, chosen = arms(tmp_path, 0.0001)
    lucky = [one._replace(metrics={**one.metrics, "validation/accuracy": 0.999}) for one in chosen]
    (found,) = confirmation(["validation/accuracy"], default, lucky, **OPTIONS)
    assert found["verdict"] == "under-powered"
    assert found["low"] < 0 < found["high"]


def test_a_metric_without_sentences_has_seeds_alone_and_is_of_test_where_it_can_be(tmp_path: Path) -> None:
    default, chosen = arms(tmp_path, 0.1)
    a_1, bars = confirmation(["validation/a_1", "validation/bar_mean"], default, chosen, **OPTIONS)
    assert (a_1["judged"], a_1["by"]) == ("posthoc/untouched/a_1", "seeds")
    assert a_1["high"] < 0
    assert a_1["p_holm"] < 0.05
    assert (a_1["verdict"], a_1["reason"]) == ("holds", "over seeds")
    assert (bars["judged"], bars["by"]) == ("validation/bar_mean", "seeds")
    assert bars["verdict"] == "under-powered", "the search has seen the validation split"


@pytest.mark.parametrize("metric", ["accuracy", "f1", "matthews", "loss"])
def test_a_trial_and_a_default_at_chance_have_no_verdict(metric: str) -> None:
    """Both predict the class that is the larger in a test split of 220 and 180, at every seed."""
    label = np.repeat([0, 1], [180, 220])
    logit = float(np.log(220 / 180))
    table = pd.DataFrame({"row": range(ITEMS), "label": label, "predicted": 1, "logit_0": 0.0, "logit_1": logit})
    items = by_item(table)
    share = 220 / 400
    entropy = -(share * np.log(share) + (1 - share) * np.log(1 - share))
    metrics = {"test/accuracy": share, "test/f1": 2 * share / (1 + share), "test/matthews": 0.0, "test/loss": entropy}
    better = {name: value + (-0.2 if name == "test/loss" else 0.2) for name, value in metrics.items()}
    same, other = (
        next(confirmation([f"validation/{metric}"], [Fresh(metrics, items)] * 3, [Fresh(one, items)] * 3, **OPTIONS))
        for one in (metrics, better)
    )
    assert (same["verdict"], same["difference"]) == ("no verdict", 0.0)
    assert other["verdict"] == "under-powered", "the same difference at every seed, but no longer at chance"


def test_the_margin_is_a_share_of_the_highest_value() -> None:
    """As in a study: .01 of BLEU is a point."""

    def of(bleu: float) -> Fresh:
        shares = bleu + np.random.default_rng(0).normal(size=ITEMS)
        return Fresh(
            {"test/bleu": float(shares.mean())}, {"bleu": SimpleNamespace(shares=shares, above=lambda mean: mean)}
        )

    old, new = ([of(30 + seed + rise * (-1) ** seed) for seed in range(6)] for rise in (0.0, 0.2))
    for declared, word in (({}, "under-powered"), ({"bleu": Metric("bleu", high=100.0)}, "does not")):
        (found,) = confirmation(["validation/bleu"], old, new, **OPTIONS, declared=declared)
        assert found["verdict"] == word


@pytest.mark.parametrize("metric", ["loss", "accuracy"])
def test_a_run_that_predicts_no_classes_is_judged_over_seeds(tmp_path: Path, metric: str) -> None:
    """Language models have the metrics of a classifier by name, but no logits by item."""
    default, chosen = ([one._replace(items={}) for one in arm] for arm in arms(tmp_path, 0.1))
    (found,) = confirmation([f"validation/{metric}"], default, chosen, **OPTIONS)
    assert (found["judged"], found["by"]) == (f"test/{metric}", "seeds")
    assert (found["low"], found["high"]) == seeds_alone(default, chosen, f"test/{metric}").interval
