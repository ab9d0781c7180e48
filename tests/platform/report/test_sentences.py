"""Numbers and findings as text: a reversed effect reverses the sentence, and no verdict is made up."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from isoscope.platform.figures import numbers
from isoscope.platform.figures.pictures import pictures
from isoscope.platform.report.sentences import MOST, confirmed, sentence
from isoscope.platform.statistics.findings import Difference, Untested
from isoscope.platform.statistics.paired import Interval, Verdict
from isoscope.studies.dynamics.allocation_views import BARS, LEARNED
from isoscope.studies.fusion.probing_scores import PROBING
from isoscope.studies.fusion.spectra import SPECTRUM
from isoscope.studies.hybrids.views import VIEWS as HYBRIDS
from isoscope.studies.isotropy.views import VIEWS as ISOTROPY
from isoscope.studies.spaces.models_against_seeds import couples, models_against_seeds
from isoscope.studies.spaces.similarity_views import LAST, MODELS_AGAINST_SEEDS, SIMILARITY


def said(views: Any, **tables: pd.DataFrame) -> list[dict[str, str]]:
    return [sentence(found) for one in pictures(views, tables) for found in one.findings]


@pytest.mark.parametrize(
    "word, difference, start",
    [
        ("holds", 0.1, "F1, a against b: higher, +0.100 [+0.050, +0.150] ("),
        ("holds", -0.1, "F1, a against b: lower, −0.100 [−0.150, −0.050] ("),
        ("does not", 0.0, "F1, a against b: no difference, +0.000 ["),
        ("under-powered", 0.1, "F1, a against b: not decided, +0.100 ["),
    ],
)
def test_the_word_and_the_sign_make_the_sentence(word: str, difference: float, start: str) -> None:
    bounds = Interval(difference - 0.05, difference + 0.05)
    found = sentence(Difference("F1", "a", "b", Verdict(word, "why"), difference, bounds, 3, 0.02))
    assert found["word"] == word
    assert found["text"].startswith(start)
    effect = "; detectable 0.020" if word == "under-powered" else ""  # beside a difference that holds it would puzzle
    assert found["text"].endswith(f" (3 paired seeds{effect}); why.")


MANY = {f"arm {place}": float(place) for place in range(MOST + 2)}


@pytest.mark.parametrize(
    "found, end",
    [
        (Untested("R²", {"ridge-all": -0.25}, 2), ": ridge-all −0.250 (2 seeds; not tested here)."),
        (Untested("a₁", {"none": 0.5, "all": np.nan}, 2), ": none 0.500 (2 seeds; not tested here)."),
        (Untested("a₁", {"none": np.nan}, 2), ": no value (2 seeds; not tested here)."),
        (Untested("BLEU", MANY, 1, beside={"chance": 0.5}), "7.00 and 2 more; chance 0.50 (1 seed; not tested here)."),
        *(
            (
                Untested("x", {"a": size, "b": size / 2}, 2, sds={"a": size / 4}),
                f": a {a} ± {sd}, b {b} (2 seeds; not tested here).",
            )
            for size, a, sd, b in ((0.0, "0.000", "0.000", "0.000"), (0.1, "0.100", "0.025", "0.050"))
        ),
    ],
)
def test_values_without_a_test(found: Untested, end: str) -> None:
    assert sentence(found)["text"].endswith(end)


def test_what_a_trial_was_with_fresh_seeds() -> None:
    row = {"metric": "validation/a_1", "judged": "test/a_1", "mean_reference": 0.52, "mean": 0.49, "difference": -0.03}
    row |= {"low": -0.05, "high": -0.01, "by": "seeds", "n": 3, "verdict": "holds", "reason": "why"}
    found = confirmed(row, {"validation/a_1": 0.45})
    assert found["word"] == "holds"
    assert found["text"] == (
        "Share of the first direction (a₁), test: 0.520 (default), 0.490 (trial; in the search Share of the first "
        "direction (a₁), validation 0.450), difference −0.030 [−0.050, −0.010] over seeds; why."
    )
    assert "an interval needs three seeds" in confirmed(row | {"low": None, "n": 2}, {})["text"]
    assert "difference −0.030 – over seeds" in confirmed(row | {"low": None}, {})["text"]


@pytest.mark.parametrize("between, way", [(0.5, "lower"), (0.9, "higher")])
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
    table = models_against_seeds(pd.DataFrame(rows), seeds, confidence=0.95, power=0.8, margin=0.01)
    (found,) = said([MODELS_AGAINST_SEEDS], models_against_seeds=table)
    assert found["word"] == "holds"
    assert found["text"].startswith(f"CKA at layer 1 as (value − null)/(1 − null), mlm and mt ({between:.1f}")
    assert f") against two seeds of one model (0.70): {way}, {'+' if way == 'higher' else '−'}0." in found["text"]
    assert not said([MODELS_AGAINST_SEEDS], models_against_seeds=table.assign(of="words without their form's mean"))


@pytest.mark.parametrize("high", [0.2, 0.7])
def test_similarity_of_the_last_layers(high: float) -> None:
    about = {"model": "mlm", "other_model": "mt", "of": "words", "measure": "cka", "n": 9, "null": 0.0, "why": None}
    about |= {"value": 0.0, "low": 0.0, "other_seed": 0}
    rows = [
        about | {"twin": twin, "seed": None if twin else 0, "layer": layer, "other_layer": other, "adjusted": value}
        for twin, top in ((False, high), (True, 0.5))
        for layer, other, value in ((0, 0, 0.1), (0, 2, 0.3), (1, 1, 0.3), (1, 2, top))
    ]
    (found,) = said([SIMILARITY], similarity=pd.DataFrame(rows))
    text = f"{LAST}: mlm × mt {high:.3f}, random weights 0.500 (1 seed; not tested here)."
    assert (found["word"], found["text"]) == ("", text)


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
    seeds = pd.concat([scores.assign(value=scores["mean"] + shift) for shift in (-1.0, 0.0, 1.0)])
    (found,) = said(HYBRIDS[:1], scores=scores, translated=seeds)
    assert found["text"] == (
        f"BLEU by start, as aligned, without updates on pairs: trained {first:.1f} ± 1.0, random {second:.1f} ± 1.0 "
        "(3 seeds; not tested here)."
    )


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
        f"Largest shares of the decrease of the validation loss, masked, summed over layers and stacks: {largest} "
        f"0.800, key 0.100, {'query' if largest == 'emb' else 'emb'} 0.040 (2 seeds; not tested here)."
    ]


@pytest.mark.parametrize("loss", [1.5, 2.5])
def test_losses_stand_beside_the_better_counting_model(loss: float) -> None:
    about = {"updates": 9, "parameters": 1, "baseline": "unigram", "margin": 1.0, "word": "trained"}
    rows = [
        about | {"arm": arm, "seed": seed, "objective": arm, "loss": end, "unigram": 4.0, "trigram": trigram}
        for arm, end, trigram in (("masked", 3.0, np.nan), ("causal", loss, 2.0))
        for seed in (0, 1)
    ]
    (found,) = said([LEARNED], learned=pd.DataFrame(rows))
    assert found["text"] == (
        "Loss at the end of training (nats): masked 3.00 ± 0.00 (best n-gram model 4.00), "
        f"causal {loss:.2f} ± 0.00 (best n-gram model 2.00) (2 seeds; not tested here)."
    )


@pytest.mark.parametrize("low", [0.2, 0.9])
def test_anisotropy_and_its_cost(low: float) -> None:
    means = {"validation/a_1": {"none": 0.6, "all": low}, "validation/accuracy": {"none": 0.8, "all": 0.7}}
    rows = [
        {"arm": arm, "seed": seed, "metric": metric, "value": value + 0.01 * (2 * seed - 1)}
        for metric, arms in means.items()
        for arm, value in arms.items()
        for seed in (0, 1)
    ]
    doses = pd.DataFrame({"arm": ["none", "all"], "group": "", "fraction": 1.0})
    found = said(ISOTROPY, averages=pd.DataFrame(rows), doses=doses)
    assert [one["text"] for one in found] == [
        "Share of the first direction (a₁), validation, at the end of training: none 0.600 ± 0.014, "
        f"all {low:.3f} ± 0.014 (2 seeds; not tested here).",
        "Accuracy, validation, at the end of training: none 0.800 ± 0.014, all 0.700 ± 0.014 (2 seeds; not tested "
        "here).",
    ]


def at_steps(arms: dict[str, float], value: str, **about: Any) -> pd.DataFrame:
    """Rows of two seeds around each arm's value: the chosen epoch, an earlier snapshot, and random weights, a third."""
    shown = {"step-9": (9, True), "step-0": (0, False), "random": (None, False)}
    rows = [
        {"arm": arm, "seed": seed, "snapshot": name, "step": step, "best": best, **about}
        | {value: mean + 0.01 * (2 * seed - 1) if best else 0.3 if name == "step-0" else mean / 3}
        for arm, mean in arms.items()
        for seed in (0, 1)
        for name, (step, best) in shown.items()
    ]
    return pd.DataFrame(rows).astype({"step": "Int64"})


@pytest.mark.parametrize("first, second", [(0.9, 0.6), (0.6, 0.9)])
def test_what_a_probe_reads_of_the_last_layer(first: float, second: float) -> None:
    about = {"metric": "accuracy", "chance": 0.5, "vectors": "first", "task": "label", "distinct": 9, "n": 9}
    layers = [
        at_steps({"additive": first, "fft": second}, "score", layer=2, **about),
        at_steps({"additive": 0.1, "fft": 0.1}, "score", layer=1, **about),
    ]
    baselines = pd.DataFrame({"task": "label", "baseline": ["TF-IDF", "majority", "TF-IDF"], "score": [0.7, 0.5, 0.8]})
    (found,) = said([PROBING], probing=pd.concat(layers), baselines=baselines)
    assert found["text"] == (
        "Accuracy, held-out sentences, of a linear probe of the last layer: label: "
        f"additive {first:.3f} ± 0.014 (random weights {first / 3:.3f}), fft {second:.3f} ± 0.014 "
        f"(random weights {second / 3:.3f}); chance 0.500; "
        "best baseline (TF-IDF) 0.750 (2 seeds; not tested here)."
    )
    for silent in ({"task": "word order", "vectors": "words"}, {"score": np.nan}):
        assert not said([PROBING], probing=pd.concat(layers).assign(**silent), baselines=baselines)


@pytest.mark.parametrize("first, second", [(0.56, 0.32), (0.32, 0.56)])
def test_flatness_of_fused_vectors(first: float, second: float) -> None:
    fused = at_steps({"additive": first, "fft": second}, "flatness", part="fused")
    fused["flatness_permuted"] = fused["arm"].map({"additive": 0.57, "fft": 0.58})
    rows = [fused, fused.assign(part="word", flatness=0.1)]
    (found,) = said([SPECTRUM], spectrum=pd.concat(rows))
    assert found["text"] == (
        f"Spectral flatness of fused vectors: additive {first:.3f} ± 0.014 (hidden axes permuted 0.570), "
        f"fft {second:.3f} ± 0.014 (hidden axes permuted 0.580); "
        "normal entries 0.561; convolution of normal entries 0.315 (2 seeds; not tested here)."
    )


@pytest.mark.parametrize(
    "written, expected",
    [
        (numbers.score(0.91249), "0.912"),
        (numbers.score(-0.5), "−0.500"),
        (numbers.score(None), "–"),
        (numbers.signed(0.0315), "+0.032"),
        (numbers.signed(-0.0315), "−0.032"),
        (numbers.spread(0.9, 0.01), "0.900 ± 0.010"),
        (numbers.spread(0.9, None), "0.900"),
        (numbers.interval(Interval(-0.1, 0.2)), "[−0.100, +0.200]"),
        (numbers.interval(None), "–"),
        (numbers.probability(0.0004), "< .001"),
        (numbers.probability(0.0432), "0.043"),
        (numbers.probability(1.0), "1"),
        (numbers.duration(3.21), "3.2 s"),
        (numbers.duration(59.97), "60.0 s"),
        (numbers.duration(125), "2 min 5 s"),
        (numbers.duration(3 * 3600 + 125), "3 h 2 min"),
        (numbers.duration(None), "–"),
        (numbers.count(1, "study", "studies"), "1 study"),
        (numbers.count(1200, "study", "studies"), "1,200 studies"),
        (numbers.count(3, "seed"), "3 seeds"),
    ],
)
def test_written(written: str, expected: str) -> None:
    assert written == expected
