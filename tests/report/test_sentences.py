"""Findings of views as sentences: a reversed effect reverses the sentence, and no verdict is made up."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from isoscope.report.sentences import MOST, of_differences, sentence
from isoscope.statistics.paired import Interval, Verdict
from isoscope.studies.dynamics.bars import BARS
from isoscope.studies.dynamics.what_decides import VIEWS as DECIDES
from isoscope.studies.findings import Difference, Values
from isoscope.studies.hybrids import VIEWS as HYBRIDS
from isoscope.studies.isotropy.courses import TRADE
from isoscope.studies.spaces.similarity_maps import VIEWS as MAPS
from isoscope.studies.spaces.told_apart import couples, told_apart
from isoscope.studies.spaces.verdicts import VIEWS as APART
from isoscope.studies.view import pictures


def said(views: Any, **tables: pd.DataFrame) -> list[dict[str, str]]:
    return [sentence(found) for one in pictures(views, tables) for found in one.findings]


@pytest.mark.parametrize(
    "word, difference, start",
    [
        ("holds", 0.1, "F1 of a is higher than that of b: +0.100 [+0.050, +0.150]"),
        ("holds", -0.1, "F1 of a is lower than that of b: −0.100 [−0.150, −0.050]"),
        ("does not", 0.0, "F1 of a does not differ from that of b: +0.000"),
        ("under-powered", 0.1, "F1 of a and b: no verdict: +0.100"),
    ],
)
def test_the_word_and_the_sign_make_the_sentence(word: str, difference: float, start: str) -> None:
    bounds = Interval(difference - 0.05, difference + 0.05)
    found = sentence(Difference("F1", "a", "b", Verdict(word, "why"), difference, bounds, 3, 0.02))
    assert found["word"] == word
    assert found["text"].startswith(start)
    assert found["text"].endswith(" (3 paired seeds; detectable 0.020): why.")


def test_a_hyphen_of_a_name_is_no_minus() -> None:
    found = sentence(Values("R²", {"ridge-all": -0.25}, 2))
    assert found["text"] == "R²: ridge-all −0.25 (2 seeds, no verdict)."


def test_many_values_are_counted() -> None:
    values = {f"arm {place}": float(place) for place in range(MOST + 2)}
    assert sentence(Values("BLEU", values, 1))["text"].endswith("arm 7 7 and 2 more (1 seed, no verdict).")


@pytest.mark.parametrize("between, way", [(0.5, "higher"), (0.9, "lower")])
def test_models_less_alike_than_seeds_and_more_alike(between: float, way: str) -> None:
    seeds, draw = {"mlm": (0, 1, 2), "mt": (0, 1, 2)}, np.random.default_rng(0)
    rows = []
    for (one, seed), (other, after) in couples(seeds):
        for layer in (0, 1):
            value = (0.7 if one == other else between) + 0.01 * draw.standard_normal()
            about = {"model": one, "seed": seed, "other_model": other, "other_seed": after, "layer": layer}
            about |= {"of": "words", "measure": "cka", "other_layer": layer, "twin": False, "null": 0.0}
            without = value + 0.001 * draw.standard_normal(20)
            rows.append(about | {"value": value, "adjusted": value, "without": without})
    table = told_apart(pd.DataFrame(rows), seeds, confidence=0.95, power=0.8, margin=0.01)
    (found,) = said(APART, told_apart=table)
    assert found["word"] == "holds"
    start = f"CKA of the last layers over its null of two seeds of one model is {way} than that of mlm and mt (0.7"
    assert found["text"].startswith(start)
    assert not said(APART, told_apart=table.assign(of="words without their form's mean"))


@pytest.mark.parametrize("high", [0.2, 0.7])
def test_similarity_of_the_last_layers(high: float) -> None:
    about = {"model": "mlm", "other_model": "mt", "of": "words", "measure": "cka", "n": 9, "null": 0.0, "why": None}
    about |= {"value": 0.0, "low": 0.0, "other_seed": 0}
    rows = [
        about | {"twin": twin, "seed": None if twin else 0, "layer": layer, "other_layer": other, "adjusted": value}
        for twin, top in ((False, high), (True, 0.5))
        for layer, other, value in ((0, 0, 0.1), (0, 1, 0.3), (1, 1, top))
    ]
    (found,) = said(MAPS, similarity=pd.DataFrame(rows))
    ordered = f"CKA of the last layers over its null: mlm × mt {high}, random weights 0.5 (1 seed, no verdict)."
    assert found == {"word": "", "text": ordered}


@pytest.mark.parametrize("first, second", [(20.0, 3.0), (3.0, 20.0)])
def test_bleu_by_start(first: float, second: float) -> None:
    means = {"trained": first, "random": second}
    scores = pd.DataFrame(
        [
            {"start": start, "training": "as aligned", "score": score, "mean": mean, "n": 3}
            for start, mean in means.items()
            for score in ("bleu", "chrf")
        ]
    )
    (found,) = said(HYBRIDS[:1], scores=scores, translated=scores)
    assert found["text"] == f"BLEU by start, as aligned: trained {first:g}, random {second:g} (3 seeds, no verdict)."


@pytest.mark.parametrize("largest", ["emb", "query"])
def test_the_largest_shares_of_arms_that_learned(largest: str) -> None:
    rows = [
        {"arm": arm, "set": which, "level": "block", "stack": "enc", "layer": layer, "component": component}
        | {"parameters": 1, "n": 2}
        | {f"{side}{name}": share for name in ("nats", "per_parameter", "share") for side in ("", "low_", "high_")}
        for arm in ("masked", "shuffled")
        for which in ("validation", "training")
        for component in ("emb", "query", "key", "W1")
        for layer in (0, 1)
        for share in [0.4 if component == largest else {"key": 0.05, "W1": 0.01}.get(component, 0.02)]
    ]
    closed = pd.DataFrame({"set": ["validation"]})
    learned = pd.DataFrame({"arm": ["masked", "shuffled"], "word": ["trained", "not trained"]})
    found = said([BARS], allocated=pd.DataFrame(rows), closed=closed, learned=learned)
    assert [one["text"] for one in found] == [
        f"Largest shares of the decrease of the validation loss, masked: {largest} 0.8, key 0.1, "
        f"{'query' if largest == 'emb' else 'emb'} 0.04 (2 seeds, no verdict)."
    ]


@pytest.mark.parametrize("low", [0.2, 0.9])
def test_anisotropy_and_its_cost(low: float) -> None:
    means = {"validation/a_1": {"none": 0.6, "all": low}, "validation/accuracy": {"none": 0.8, "all": 0.7}}
    rows = [
        {"arm": arm, "seed": seed, "figure": figure, "value": value}
        for figure, arms in means.items()
        for arm, value in arms.items()
        for seed in (0, 1)
    ]
    found = said([TRADE], averages=pd.DataFrame(rows), doses=pd.DataFrame({"arm": ["none", "all"]}))
    assert [one["text"] for one in found] == [
        f"Share of the first direction (a₁), validation, at the end of training: none 0.6, all {low} (2 seeds, no "
        "verdict).",
        "Accuracy, validation, at the end of training: none 0.8, all 0.7 (2 seeds, no verdict).",
    ]


def test_sources_of_variance() -> None:
    rows = [
        {"objectives": "all", "distance": distance, "source": source, "share": share, "runs": 24}
        for distance, shares in (("hellinger", (0.7, 0.1)), ("cosine", (0.1, 0.7)))
        for source, share in zip(("objective", "data"), shares, strict=True)
    ]
    found = said(DECIDES[:1], shares=pd.DataFrame(rows), left_out=pd.DataFrame())
    assert [one["text"] for one in found] == [
        "Share of the variance of the profiles, all objectives: objective 0.7, data 0.1 (24 runs, no verdict)."
    ]


def test_small_p_values_are_counted_and_the_smallest_is_named() -> None:
    about = {"figure": "a_1", "reference": "additive", "n": 3, "low": -0.3, "high": -0.1, "difference": -0.2}
    rows = [about | {"arm": arm, "p_holm": p} for arm, p in (("conv2d", 0.04), ("fft", 0.01), ("gated", 0.5))]
    (found,) = of_differences([*rows, about | {"arm": "few", "p_holm": None}], confidence=0.95)
    assert found["text"] == (
        "2 of 3 tested differences between arms have p < 0.05 after Holm's correction, first Share of the first "
        "direction (a₁), fft − additive: −0.200 [−0.300, −0.100] (3 paired seeds)."
    )
    (none,) = of_differences(rows[2:], confidence=0.95)
    assert none["text"] == "0 of 1 tested difference between arms have p < 0.05 after Holm's correction."
    assert of_differences([about | {"arm": "few", "p_holm": None}], confidence=0.95) == []
