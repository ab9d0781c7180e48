"""Maps between the last layers of two spaces, on sentences that did not fit them; and states of linked words."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from isoscope.data.word_links import Translation
from isoscope.data.word_table import KEY, WordTable, every_word
from isoscope.states.compared_items import compared_items
from isoscope.states.space_tables import maps_table
from isoscope.states.word_space import Space, store

WIDTH = 6
RANDOM = np.random.default_rng(3)
TEXTS = [" ".join(f"w{word}" for word in RANDOM.integers(0, 50, 5)) for _ in range(600)]


def space(folder: Path, states: Any, table: WordTable) -> Space:
    return store(folder, table.rows[KEY].assign(found=True), np.asarray(states, np.float32)[None])


@pytest.fixture(scope="module")
def table() -> WordTable:
    return every_word(TEXTS)


def maps(tmp_path: Path, table: WordTable, x: Any, y: Any) -> pd.DataFrame:
    on = compared_items(table, np.ones(len(table.rows), bool), probe="words", seed=0)[0]
    spaces = space(tmp_path / "one", x, table), space(tmp_path / "other", y, table)
    return maps_table(*spaces, on, seed=0, confidence=0.95).set_index(["back", "map"])


def test_a_rotated_space_is_found_again(tmp_path: Path, table: WordTable) -> None:
    x = RANDOM.standard_normal((len(table.rows), WIDTH))
    turned = 3 * x @ np.linalg.qr(RANDOM.standard_normal((WIDTH, WIDTH)))[0] + 1
    found = maps(tmp_path, table, x, turned)
    for back in (False, True):
        assert found.loc[(back, "procrustes"), "error"] == pytest.approx(0, abs=1e-10)
        assert found.loc[(back, "procrustes"), ["r2", "retrieval_forward", "cosine_back"]].tolist() == pytest.approx(
            [1, 1, 1]
        )
        assert found.loc[(back, "none"), "r2"] < 0
        assert found.loc[(back, "ridge"), "strength"] == 1e-4  # without noise, the least penalty
    ridge = found.loc[(False, "ridge")]
    assert ridge["low"] <= ridge["r2"] <= ridge["high"]
    assert ridge["null"] < 0.1


def test_unrelated_spaces_of_other_width_have_no_map(tmp_path: Path, table: WordTable) -> None:
    """A negative control: no variance is explained, retrieval is chance."""
    x, y = (RANDOM.standard_normal((len(table.rows), width)) for width in (WIDTH, WIDTH + 3))
    found = maps(tmp_path, table, x, y)
    assert set(found.loc[True].index) == {"procrustes", "ridge"}
    assert (found["r2"] < 0.01).all()
    assert (found[["retrieval_forward", "cosine_back"]] < 0.05).all(axis=None)
    assert found.loc[(False, "ridge"), "strength"] == 10  # of noise, the most


def test_equal_forms_alone_are_mapped_unless_their_means_are_taken_away(tmp_path: Path, table: WordTable) -> None:
    """Two unrelated tables of vectors by form: what the forms share is no likeness of contexts."""
    form = np.unique(table.rows["form"], return_inverse=True)[1]
    x, y = (
        RANDOM.standard_normal((50, WIDTH * 10))[form] + 0.1 * RANDOM.standard_normal((len(form), WIDTH * 10))
        for _ in range(2)
    )
    spaces = space(tmp_path / "one", x, table), space(tmp_path / "other", y, table)
    every, contexts = compared_items(table, np.ones(len(form), bool), probe="words", seed=0)
    found = maps_table(*spaces, every, seed=0, confidence=0.95).set_index(["back", "map"])
    assert found.loc[(False, "ridge"), "r2"] > 0.9
    assert found.loc[(False, "ridge"), "null"] < 0.05  # with sentences exchanged, words meet other words
    left = maps_table(*spaces, contexts, seed=0, confidence=0.95).set_index(["back", "map"])
    assert (left.loc[False].drop("none")["r2"] < 0.01).all()


def every_form_twice(sentences: int) -> WordTable:
    """Sentences of 5 words."""
    words = RANDOM.permutation(np.repeat(np.arange(sentences * 5 // 2), 2)).reshape(sentences, 5)
    return every_word([" ".join(f"w{word}" for word in sentence) for sentence in words])


@pytest.mark.parametrize("shared", [0.0, 1.0])
def test_without_form_means_a_word_of_the_test_is_not_known_from_one_of_the_fit(tmp_path: Path, shared: float) -> None:
    """Two words of a form are exact opposites in both spaces: with means over all parts, retrieval was .6 of noise."""
    twice = every_form_twice(600)
    x, noise = (RANDOM.standard_normal((len(twice.rows), 256)) for _ in range(2))
    spaces = space(tmp_path / "one", x, twice), space(tmp_path / "other", shared * x + 0.1 * noise, twice)
    _, contexts = compared_items(twice, np.ones(len(twice.rows), bool), probe="words", seed=0)
    found = maps_table(*spaces, contexts, seed=0, confidence=0.95)
    assert (found["n"] > 20).all()
    ends = found[found["map"] == "ridge"]
    if shared:
        assert (ends["retrieval_forward"] > 0.5).all(), "the control: contexts that are alike are found"
    else:
        assert (ends["r2"] < 0.01).all()
        assert (ends["retrieval_forward"] < 0.2).all()


def test_too_few_words_that_occur_again_in_the_test_leave_an_empty_cell(tmp_path: Path) -> None:
    few = every_form_twice(120)
    x = RANDOM.standard_normal((len(few.rows), WIDTH))
    spaces = space(tmp_path / "one", x, few), space(tmp_path / "other", x, few)
    contexts = compared_items(few, np.ones(len(few.rows), bool), probe="words", seed=0)[1]
    found = maps_table(*spaces, contexts, seed=0, confidence=0.95)
    assert found["r2"].isna().all()
    assert found["why"].str.fullmatch(r"the test has words of \d+ sentences; expected at least 20").all()


def test_linked_words_have_the_states_of_their_links(tmp_path: Path, table: WordTable) -> None:
    other = every_word([" ".join(text.split()[::-1]) for text in TEXTS])
    (tmp_path / "links.txt").write_text("0-4 1-3 2-2 4-0\n" * len(TEXTS), "utf-8")
    linked = Translation(other.texts, tmp_path / "links.txt", "pairs.csv, column 'tgt'").linked(TEXTS, table)
    states = RANDOM.standard_normal((len(table.rows), WIDTH))
    there = space(tmp_path / "there", states, linked.table)
    found = there.linked(table, linked.rows)
    assert found.keys["found"].tolist() == [True, True, True, False, True] * len(TEXTS)
    mirrored = states.reshape(len(TEXTS), 5, WIDTH)[:, ::-1][:, [0, 1, 2, 4]].reshape(-1, WIDTH)
    kept = found.keys["found"].to_numpy()
    np.testing.assert_array_equal(found.layer(0, kept), mirrored.astype(np.float32))
    assert (found.keys["form"] == table.rows["form"]).all()


def test_a_layer_without_variance_leaves_an_empty_cell(tmp_path: Path, table: WordTable) -> None:
    found = maps(tmp_path, table, np.ones((len(table.rows), WIDTH)), RANDOM.standard_normal((len(table.rows), WIDTH)))
    assert found["r2"].isna().all()
    assert set(found["why"]) == {"all points are one"}


def test_items_are_exchanged_within_length_and_half() -> None:
    texts = [text if number % 3 else text.rsplit(" ", 1)[0] for number, text in enumerate(TEXTS)]
    shorter = every_word(texts)
    on = compared_items(shorter, np.ones(len(shorter.rows), bool), probe="words", seed=0)[0]
    rows = on.sample(50, seed=0)
    places = on.places_of(rows, seed=0, draw=0)
    assert sorted(places) == [*range(len(rows))]
    assert (places != np.arange(len(rows))).all()
    strata = np.column_stack([on.length[rows], on.groups[rows] % 2])
    assert len(np.unique(strata, axis=0)) == 4
    np.testing.assert_array_equal(strata[places], strata)
