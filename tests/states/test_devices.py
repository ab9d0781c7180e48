"""Measured on a device, a run and a pair of spaces have the tables of the CPU."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from isoscope import plugins
from isoscope.base.built_in import MEASURES
from isoscope.data.word_table import KEY, WordTable, word_table
from isoscope.states.choices import DEFAULTS, SPACES
from isoscope.states.compared_items import compared_items
from isoscope.states.measure import measured
from isoscope.states.similarity_tables import similarity_table
from isoscope.states.word_space import Space, store
from probe_material import sentences, write_run

DEVICES = ["cpu:0", *(["cuda"] if torch.cuda.is_available() else [])]
"""`cpu:0` is torch's CPU: `cpu` is NumPy's."""


@pytest.mark.parametrize("device", DEVICES)
def test_a_trajectory_has_the_tables_of_numpy(device: str, tmp_path: Path) -> None:
    """The effective rank to seven digits: it counts the rounding of a singular value that is 0, on every machine."""
    run, names = write_run(tmp_path), [name for name in MEASURES if plugins.MEASURES[name].of == "points"]
    settings, vectors = DEFAULTS._replace(subsample=16, draws=3), ["first", "mean", "words"]
    on_cpu, moved = (
        measured(run, names, vectors, settings._replace(device=one), title="", transforms=["none", "centred"])
        for one in ("cpu", device)
    )
    assert {*on_cpu} == {*moved} == {"geometry", "transformed"}
    for name, table in on_cpu.items():
        assert table["value"].notna().sum() > 100
        rank = table["metric"] == "effective_rank"
        pd.testing.assert_frame_equal(moved[name][~rank], table[~rank], rtol=1e-9, atol=1e-12)
        pd.testing.assert_frame_equal(moved[name][rank], table[rank], rtol=1e-7)
    assert any((moved[name]["value"] != table["value"]).any() for name, table in on_cpu.items()), "another library"


def space(folder: Path, table: WordTable, width: int) -> Space:
    random = np.random.default_rng(width)
    form = np.unique(table.rows["form"].to_numpy(), return_inverse=True)[1]
    parts = (random.standard_normal((2, of.max() + 1, width))[:, of] for of in (form, table.sentences))
    states = sum(parts) + random.standard_normal((2, len(form), width))
    return store(folder, table.rows[KEY].assign(found=True), states.astype(np.float32))


@pytest.mark.parametrize("device", DEVICES)
def test_a_pair_of_spaces_has_the_table_of_numpy(device: str, tmp_path: Path) -> None:
    """The null of measures from products to six digits: their products are in float32."""
    table = word_table(sentences()["sentence"].to_pylist(), occurrences=600, per_sentence=25, seed=0)
    pair = [space(tmp_path / str(width), table, width) for width in (6, 4)]
    on = compared_items(table, np.ones(len(table.rows), bool), probe="words", seed=0)
    settings = SPACES._replace(permutations=3, items=40, neighbours=3, components=2)
    on_cpu, moved = (similarity_table(*pair, on, settings._replace(device=one)) for one in ("cpu", device))
    assert on_cpu["value"].notna().sum() > 60
    null, exact = ["null", "null_sd", "adjusted"], on_cpu["measure"].isin(["rsa", "rsa_partial", "neighbours"])
    columns = ["without", *null]
    pd.testing.assert_frame_equal(moved.drop(columns=columns), on_cpu.drop(columns=columns), rtol=1e-9, atol=1e-12)
    pd.testing.assert_frame_equal(moved.loc[exact, null], on_cpu.loc[exact, null], rtol=1e-9, atol=1e-12)
    pd.testing.assert_frame_equal(moved[null], on_cpu[null], rtol=1e-5, atol=1e-6)
    for own, theirs in zip(moved["without"], on_cpu["without"], strict=True):
        np.testing.assert_allclose(own, theirs, rtol=1e-9, atol=1e-12)
