"""Frozen groups stay exactly as they were, nothing before changes, and they learn afterwards."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from safetensors.torch import load_file

from isoscope.base.errors import InputError
from isoscope.models.components import blocks
from isoscope.platform.config.training import Freeze as Settings
from isoscope.training.loop import Loop
from language_material import ALLOCATED, causal_lm, masked_lm, pairs, translates
from training_runs import completed, equal, make_loop, weights

AFTER, UPDATES = 2, 6
SETTINGS: dict[str, Any] = {
    "table": pairs,
    "weight_decay": 0.5,
    "snapshots": {"steps": 1, "epochs": False},
    "keep": "last",
    "epochs": 1,
    "allocation": ALLOCATED | {"dense": 4, "chords": 1},
}
GROUPS = {masked_lm: ["enc.1.W1", "enc.emb"], causal_lm: ["dec.0.query", "dec.pos"], translates: ["cross.0.value"]}


def trained(folder: Path, make: Any, groups: list[str] | None = None) -> Loop:
    freeze = {"after": AFTER, "until": None, "groups": groups} if groups else None
    return completed(folder, make=make, freeze=freeze, **SETTINGS)


def kept(folder: Path, update: int) -> dict[str, torch.Tensor]:
    return load_file(folder / f"work/snapshots/step-{update}/model.safetensors")


def allocation(folder: Path) -> pd.DataFrame:
    table = pd.read_parquet(folder / "work/allocation.parquet").astype({"stack": str, "component": str})
    place = table["stack"] + "." + table["layer"].astype("string").add(".").fillna("") + table["component"]
    return table.assign(group=place)


@pytest.mark.parametrize("make", [masked_lm, causal_lm, translates])
def test_frozen_groups_stay_and_all_is_equal_before(tmp_path: Path, make: Any) -> None:
    free = trained(tmp_path / "free", make)
    held = trained(tmp_path / "held", make, GROUPS[make])
    for update in range(AFTER + 1):
        assert equal(kept(tmp_path / "free", update), kept(tmp_path / "held", update))
    before = [[point for point in loop.log.points if point[2] <= AFTER] for loop in (free, held)]
    assert [point for point in before[0] if point[2] == AFTER]
    assert before[0] == before[1]

    names = {name for group in GROUPS[make] for name in blocks(held.raw_model)[group]}
    stopped = kept(tmp_path / "held", AFTER)
    for update in range(AFTER + 1, UPDATES + 1):
        last, now = (kept(tmp_path / "held", one) for one in (update - 1, update))
        assert all(torch.equal(now[name], stopped[name]) for name in names)
        moved = {name for name in now if not torch.equal(now[name], last[name])}
        assert moved == now.keys() - names, "every other parameter still learns"
    assert not any(torch.equal(kept(tmp_path / "free", UPDATES)[name], stopped[name]) for name in names)

    allocated = allocation(tmp_path / "held")
    of_held = allocated["group"].isin(GROUPS[make])
    later = allocated["start"] >= AFTER
    exact = allocated[allocated["estimator"] == "simpson"]
    assert (exact.loc[of_held & later, ["helping", "hurting", "largest"]] == 0).all(axis=None)
    single = later & (allocated["update"] == allocated["start"] + 1)
    assert (exact.loc[of_held & single, ["gradient", "momentum", "decay"]] == 0).all(axis=None)
    assert (allocated.loc[of_held & later, "value"] == 0).all()
    assert (exact.loc[of_held & ~later].groupby("update")["value"].sum() != 0).all()
    assert pd.read_parquet(tmp_path / "held/work/closure.parquet")["closed"].all()


def test_a_word_table_of_both_stacks_is_shared(tmp_path: Path) -> None:
    """It is read by the encoder and the decoder and predicts; holding it holds all three."""
    loop = trained(tmp_path, translates, ["shared.emb"])
    model = loop.raw_model
    (table,) = blocks(model)["shared.emb"].values()
    assert table is model.encoder.embeddings.word_embeddings.weight
    assert table is model.decoder.bert.embeddings.word_embeddings.weight
    assert table is model.decoder.cls.predictions.decoder.weight
    copies = [name for name, one in model.state_dict().items() if torch.equal(one, table)]
    before, after = (kept(tmp_path, update) for update in (AFTER, UPDATES))
    (name,) = set(copies) & before.keys()
    assert torch.equal(before[name], after[name])


def test_whole_layers_and_tables_stay_during_the_first_epoch_and_then_move(tmp_path: Path) -> None:
    groups = ["enc.emb", "enc.pos", "enc.LayerNorm", "enc.0"]
    freeze = {"after": 0, "until": 6, "groups": groups}
    loop = make_loop(tmp_path, freeze=freeze, keep="all", weight_decay=0.5)
    assert loop.per_epoch == 6
    start = weights(loop)
    loop.fit()
    first, second = (load_file(loop.keeper.checkpoints / f"epoch-{epoch}/model.safetensors") for epoch in (1, 2))
    frozen = {name for group, own in blocks(loop.raw_model).items() for name in own if group.startswith(tuple(groups))}
    assert {name for name, value in start.items() if torch.equal(first[name], value)} == frozen
    moved = {name for name in frozen if not torch.equal(second[name], first[name])}
    assert any("embeddings" in name for name in moved)
    assert any("layer.0" in name for name in moved)


@pytest.mark.parametrize(
    "freeze, said",
    [
        ({"after": 1, "groups": ["enc.2.W1"]}, r"groups: no group 'enc\.2\.W1'; the model has enc\.emb, enc\.pos, "),
        ({"after": 1, "groups": ["en"]}, r"groups: no group 'en'; the model has "),
        ({"after": 12, "groups": ["enc.0.W1"]}, r"after: 12, but the run has 12 updates, so nothing is frozen"),
    ],
)
def test_what_it_cannot_do_is_one_line(tmp_path: Path, freeze: Any, said: str) -> None:
    with pytest.raises(InputError, match=rf"^training\.freeze\.{said}"):
        make_loop(tmp_path, freeze=freeze | {"until": None})


def test_a_freeze_without_groups_or_updates_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1 item"):
        Settings.model_validate({"after": 1, "until": None, "groups": []})
    with pytest.raises(ValueError, match="until 1 is not after update 1"):
        Settings.model_validate({"after": 1, "until": 1, "groups": ["enc"]})


@pytest.mark.parametrize("make", [masked_lm, translates])
def test_every_parameter_is_in_one_block(tmp_path: Path, make: Any) -> None:
    model = make_loop(tmp_path, make=make, table=pairs).raw_model
    inside = [id(one) for own in blocks(model).values() for one in own.values()]
    assert sorted(inside) == sorted(id(one) for one in model.parameters())
