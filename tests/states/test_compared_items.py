"""Words without the mean of their form: which are compared, and what independent spaces have in common."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from isoscope.data.word_table import KEY, WordTable
from isoscope.geometry.moments import within_classes
from isoscope.geometry.similarity import CKA, HeldOutCCA
from isoscope.geometry.similarity_grid import Side, similarities
from isoscope.states.choices import SPACES
from isoscope.states.compared_items import BY_FORM, ComparedItems, compared_items
from isoscope.states.similarity_tables import similarity_table
from isoscope.states.word_space import Space, store

FEW = SPACES._replace(permutations=4, items=80, neighbours=3)


def words(lengths: Any, forms: Any) -> WordTable:
    """Sentences of these lengths, with the given form of each word."""
    sentence = np.repeat(np.arange(len(lengths)), lengths)
    place = np.arange(len(sentence)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    about = {"sentence": sentence, "position": place, "form": [f"w{form}" for form in forms]}
    rows = pd.DataFrame(about).assign(begin=0, end=0, frequency=-1, tag="")
    return WordTable([""] * len(lengths), np.arange(len(lengths)), rows)


def by_form(table: WordTable) -> ComparedItems:
    _, found = compared_items(table, np.ones(len(table.rows), bool), probe="words", seed=0)
    assert found.of == BY_FORM
    return found


def space(folder: Path, table: WordTable, *layers: Any) -> Space:
    folder.mkdir()
    return store(folder, table.rows[KEY].assign(found=True), np.stack(layers).astype(np.float32))


def test_no_word_is_alone_in_its_form_after_sentences_of_a_rare_length_are_left_out() -> None:
    random = np.random.default_rng(0)
    lengths = random.lognormal(2.3, 0.5, 150).astype(int) + 2
    chances = 1 / np.arange(1, 3001)
    table = words(lengths, random.choice(3000, lengths.sum(), p=chances / chances.sum()))
    found = by_form(table)
    assert found.left_out > 0
    assert np.bincount(found.form).min() >= 2
    named = table.rows["form"][found.kept]
    assert (named.groupby(named).transform("size") > 1).all()
    assert len(named) > 500, "the others stay"


def test_a_layer_without_context_has_rsa_by_the_words_that_are_not_at_one_place(tmp_path: Path) -> None:
    """Less its form's mean, a word of a form that always stands at one place is 0 where a vector is word + position."""
    random = np.random.default_rng(1)
    forms = np.concatenate([[0, *random.integers(1, 40, 4)] for _ in range(200)])  # the first word is always the same
    table = words(np.full(200, 5), forms)
    place = table.rows["position"].to_numpy()
    plain = random.standard_normal((40, 8))[forms] + random.standard_normal((5, 8))[place]
    layers = plain, random.standard_normal(plain.shape)
    spaces = [space(tmp_path / name, table, *(one @ turn for one in layers)) for name, turn in (
        ("one", np.eye(8)), ("other", np.linalg.qr(random.standard_normal((8, 8)))[0])
    )]  # fmt: skip
    on = by_form(table)
    chosen = on.sample_for_pairs(FEW.items, *spaces, seed=0)
    assert np.unique(on.form[chosen]).size == len(chosen), "of one form, each says what the other is"
    assert 0 not in {*table.rows["form"].str[1:].astype(int).to_numpy()[on.kept][chosen]}
    found = similarity_table(*spaces, [on], FEW).set_index(["layer", "other_layer", "measure"])
    assert found.loc[(0, 0, "rsa"), "value"] == pytest.approx(1.0)
    assert found["value"].notna().all()


@pytest.mark.parametrize("measure", [CKA(), HeldOutCCA()], ids=["cka", "held-out cca"])
def test_independent_spaces_are_as_alike_as_their_null(measure: Any) -> None:
    """Two words of a form are opposite in both spaces. Exchanged alone, they are not, and the null is too low."""
    random = np.random.default_rng(2)
    on = by_form(words(np.full(200, 8), random.integers(0, 800, 1600)))
    differences: dict[bool, list[float]] = {True: [], False: []}
    for draw in range(12):
        one, other = (within_classes(random.standard_normal((len(on.form), 30)), on.form) for _ in range(2))
        places = [on.places(seed=draw, draw=each) for each in range(3)]
        for centred, own in differences.items():
            sides = (Side(points, on.groups, on.centred if centred else None) for points in (one, other))
            found = similarities(*sides, [measure], groups=on.groups, permutations=places)[measure.name]
            own.append(found.value - found.null.mean())
    spread = {centred: float(np.std(own, ddof=1)) / 12**0.5 for centred, own in differences.items()}
    assert abs(np.mean(differences[True])) < 3 * spread[True]
    assert np.mean(differences[False]) > 5 * spread[False], "the control"


def test_of_few_forms_the_products_are_compared_and_the_distances_say_why_not(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    table = words(np.full(100, 5), random.integers(0, 2, 500))
    spaces = [space(tmp_path / name, table, random.standard_normal((500, 6))) for name in ("one", "other")]
    found = similarity_table(*spaces, [by_form(table)], FEW).set_index("measure")
    assert np.isfinite(found.loc["cka", "value"])
    for measure in ("rsa", "rsa_partial", "neighbours"):
        assert np.isnan(found.loc[measure, "value"])
        assert found.loc[measure, "why"].startswith("fewer than 3 words of different forms")
