"""Contextuality of a layer: every number against pair loops, baselines, what isotropic words give, coverage."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from isoscope.data.word_table import word_table
from isoscope.geometry.moments import Floats, Ints
from isoscope.geometry.sentence_permutations import GROUPS, sentence_groups
from isoscope.states.contextuality_tables import BINS, Layer, Words, contextuality, histograms, sampled

OPTIONS = {"draws": 40, "pairs": 2000, "confidence": 0.95, "seed": 0}


def cosine(one: Floats, other: Floats) -> float:
    return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))


def two_hundred() -> tuple[Floats, Words]:
    """Two hundred words in 25 sentences, of 15 forms, off the origin."""
    random = np.random.default_rng(0)
    sentence, form = np.repeat(np.arange(25), 8), random.integers(0, 15, 200)
    points = random.standard_normal((200, 6)) + 0.5 * random.standard_normal((25, 6))[sentence] + 0.4
    return points + 0.7 * random.standard_normal((15, 6))[form], Words(sentence, form, form * 10)


def values(found: Layer) -> dict[str, float]:
    return dict(zip(found.measures["measure"], found.measures["value"], strict=True))


def test_every_measure_is_what_loops_over_pairs_give() -> None:
    points, words = two_hundred()
    layer = contextuality(points, words, **OPTIONS)
    found = values(layer)
    pairs = [(i, j) for i, j in combinations(range(200), 2) if words.sentence[i] != words.sentence[j]]
    every = np.mean([cosine(points[i], points[j]) for i, j in pairs])
    other = np.mean([cosine(points[i], points[j]) for i, j in pairs if words.form[i] != words.form[j]])
    assert found["avg_sim"] == pytest.approx(every, abs=1e-10)
    assert found["avg_sim_other_words"] == pytest.approx(other, abs=1e-10)
    moved = points - points.mean(0)
    centred = np.mean([cosine(moved[i], moved[j]) for i, j in pairs])
    assert found["avg_sim_centred"] == pytest.approx(centred, abs=1e-10)
    of_form = {}
    for form in range(15):
        own = [cosine(points[i], points[j]) for i, j in pairs if words.form[i] == words.form[j] == form]
        if len({*words.sentence[words.form == form]}) >= 5:
            of_form[form] = float(np.mean(own))
    counts = np.bincount(words.form)
    assert found["self_sim"] == pytest.approx(np.mean([*of_form.values()]), abs=1e-10)
    weighted = np.average([*of_form.values()], weights=[counts[form] for form in of_form])
    assert found["self_sim_by_occurrence"] == pytest.approx(weighted, abs=1e-10)
    assert found["self_sim_corrected"] == pytest.approx(np.mean([*of_form.values()]) - every, abs=1e-10)
    table = layer.words
    assert dict(zip(table["form"], table["self_sim"], strict=True)) == pytest.approx(of_form)
    assert (table["frequency"] == table["form"] * 10).all()
    assert (table["occurrences"] == counts[table["form"]]).all()
    published, left_out = [], []
    for sentence in range(25):
        of = points[words.sentence == sentence]
        published.append(np.mean([cosine(word, of.mean(0)) for word in of]))
        left_out.append(np.mean([cosine(of[i], np.delete(of, i, axis=0).mean(0)) for i in range(8)]))
    assert found["intra_sim"] == pytest.approx(np.mean(published), abs=1e-10)
    assert found["intra_sim_left_out"] == pytest.approx(np.mean(left_out), abs=1e-10)


def test_self_sim_of_a_tag_is_over_the_forms_occurrences_with_it() -> None:
    """Nine sentences have the noun "run", always e₁; six have the verb, half e₂ and half e₃: 6 of 15 pairs."""
    tagged = [
        (["the", "run", "can", "run"][: 4 if place < 6 else 2], ["DET", "NOUN", "AUX", "VERB"]) for place in range(9)
    ]
    tagged = [([*tokens, f"w{place}"], [*tags[: len(tokens)], "X"]) for place, (tokens, tags) in enumerate(tagged)]
    texts = [" ".join(tokens) for tokens, _ in tagged]
    rows = word_table(texts, occurrences=99, per_sentence=9, seed=0, tagged=tagged).rows
    forms, form = np.unique(rows["form"], return_inverse=True)
    tags, tag = np.unique(rows["tag"], return_inverse=True)
    axis = np.where(tag == [*tags].index("NOUN"), 0, 3 + form)
    verbs = np.flatnonzero(tag == [*tags].index("VERB"))
    axis[verbs] = np.repeat([1, 2], 3)
    words = Words(rows["sentence"].to_numpy(), form, form, tag)
    found = contextuality(np.eye(axis.max() + 1)[axis], words, **OPTIONS).tagged
    named = {
        (forms[one], tags[other]): (n, value)
        for one, other, n, value in found[["form", "tag", "occurrences", "self_sim"]].itertuples(index=False)
    }
    assert named == {
        ("the", "DET"): (9, pytest.approx(1.0)),
        ("can", "AUX"): (6, pytest.approx(1.0)),
        ("run", "NOUN"): (9, pytest.approx(1.0)),
        ("run", "VERB"): (6, pytest.approx(0.4)),
    }


def test_a_sentences_own_direction_is_told_by_the_pseudo_sentences() -> None:
    random = np.random.default_rng(2)
    sentence, form = np.repeat(np.arange(100), 10), random.integers(0, 50, 1000)
    points = random.standard_normal((1000, 30)) + random.standard_normal((100, 30))[sentence]
    found = values(contextuality(points, Words(sentence, form, form), **OPTIONS))
    assert found["intra_sim_left_out"] > 0.6
    assert abs(found["intra_sim_left_out_pseudo"]) < 0.05
    assert found["intra_sim"] > found["intra_sim_pseudo"] > 0.25


def test_at_most_a_thousand_occurrences_of_a_form_are_sampled_and_rare_forms_are_not() -> None:
    form = np.r_[np.zeros(1500, np.int64), np.ones(4, np.int64), np.full(10, 2)]
    sentence = np.r_[np.arange(1500), np.arange(4), np.zeros(10, np.int64)]
    rows = sampled(Words(sentence, form, form), seed=0)
    assert np.bincount(form[rows], minlength=3).tolist() == [1000, 0, 0]


def test_histograms_are_of_pairs_of_different_sentences() -> None:
    """Words of a sentence are equal, of different sentences at right angles: no cosine of 1 is drawn."""
    sentence = np.repeat(np.arange(5), 20)
    table = histograms(np.eye(5)[sentence], sentence, pairs=1000, seed=0)
    for measure, at in (("cosine", 0.0), ("distance", np.sqrt(2))):
        own = table[table["measure"] == measure]
        assert len(own) == BINS
        (place,) = own[own["share"] > 0].itertuples()
        assert place.share == 1
        assert place.low - 1e-9 <= at <= place.high + 1e-9
    assert isinstance(table, pd.DataFrame)


def drawn(sentences: int, random: np.random.Generator) -> tuple[Floats, Ints, Ints]:
    sentence, form = np.repeat(np.arange(sentences), 20), random.integers(0, 30, 20 * sentences)
    own = random.standard_normal((sentences, 8))[sentence]
    return random.standard_normal((len(sentence), 8)) + own + FORMS[form] + 0.3, sentence, form


FORMS = 0.6 * np.random.default_rng(9).standard_normal((30, 8))


@pytest.mark.parametrize(
    "count, least, most", [(30, 0.8, 1.0), pytest.param(300, 0.92, 0.98, marks=pytest.mark.exhaustive)]
)
def test_intervals_cover_the_population_value(count: int, least: float, most: float) -> None:
    random = np.random.default_rng(5)
    points, sentence, form = drawn(4000, random)
    names = ("avg_sim", "avg_sim_other_words", "self_sim", "intra_sim", "intra_sim_left_out")
    truth = values(contextuality(points, Words(sentence, form, form), **OPTIONS | {"draws": 2}))
    hits = dict.fromkeys(names, 0)
    for _ in range(count):
        points, sentence, form = drawn(100, random)
        found = contextuality(points, Words(sentence, form, form), **OPTIONS | {"draws": 200})
        table = found.measures.set_index("measure")
        for name in names:
            hits[name] += bool(table.loc[name, "low"] <= truth[name] <= table.loc[name, "high"])
    for name in names:
        assert least <= hits[name] / count <= most, hits


def test_without_a_group_is_the_value_of_the_other_sentences() -> None:
    points, words = two_hundred()
    found = contextuality(points, words, **OPTIONS).measures.set_index("measure")["without"]
    group = sentence_groups(np.bincount(words.sentence), GROUPS, seed=0)
    for number in (0, 7):
        kept = group[words.sentence] != number
        sentence = np.unique(words.sentence[kept], return_inverse=True)[1]
        rest = Words(sentence, words.form[kept], words.frequency[kept])
        plain = values(contextuality(points[kept], rest, **OPTIONS))
        for measure in ("avg_sim", "avg_sim_other_words", "intra_sim", "intra_sim_left_out"):
            assert found[measure][number] == pytest.approx(plain[measure], abs=1e-10), measure
        pairs = [(i, j) for i, j in combinations(np.flatnonzero(kept), 2) if words.sentence[i] != words.sentence[j]]
        of_form = [
            np.mean([cosine(points[i], points[j]) for i, j in pairs if words.form[i] == words.form[j] == form])
            for form in range(15)
            if len({*words.sentence[words.form == form]}) >= 5  # of all sentences: the forms stay the same
        ]
        assert found["self_sim"][number] == pytest.approx(np.mean(of_form), abs=1e-10)


def test_isotropic_words_have_no_similarity_and_equal_words_have_all() -> None:
    """Within three standard errors of 0, by the interval; and MEV is that of random words."""
    random = np.random.default_rng(1)
    sentence, form = np.repeat(np.arange(200), 10), random.integers(0, 100, 2000)
    words = Words(sentence, form, form)
    found = contextuality(random.standard_normal((2000, 40)), words, **OPTIONS).measures.set_index("measure")
    for name in ("avg_sim", "avg_sim_other_words", "self_sim", "intra_sim_left_out", "intra_sim_left_out_pseudo"):
        half = (found.loc[name, "high"] - found.loc[name, "low"]) / 2
        assert abs(found.loc[name, "value"]) < 1.6 * half, name
    assert found.loc["intra_sim", "value"] == pytest.approx(1 / np.sqrt(10), abs=0.01)
    assert found.loc["mev", "value"] == pytest.approx(found.loc["mev_random", "value"], abs=0.01)
    same = values(contextuality(np.ones((2000, 3)), words, **OPTIONS))
    for name in ("avg_sim", "self_sim", "intra_sim", "intra_sim_left_out"):
        assert same[name] == pytest.approx(1.0)
