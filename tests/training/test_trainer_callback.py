"""Observers in a real Trainer: the documentation's lines, the observer called directly, allocation, refusals."""

import inspect
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor
from transformers import Trainer

from isoscope.base.errors import InputError
from isoscope.base.registry import OBSERVERS
from isoscope.models.components import members
from isoscope.objectives import Place
from isoscope.platform.config.kinds import options_of
from isoscope.platform.config.training import Allocation as Settings
from isoscope.platform.config.tree import read_yaml
from isoscope.training.allocation_sets import folded_set
from isoscope.training.anisotropy import batch_metrics, sample_metrics
from isoscope.training.observers.lca import Allocation
from isoscope.training.observers.trainer_callback import ObserverCallback, TrainerData
from isoscope.training.observers.watch import Watch
from isoscope.training.packed import Packed
from isoscope.training.ranks import Ranks
from trainer_runs import lines, trainer

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.filterwarnings("ignore")


def observer(**changed: Any) -> Allocation:
    settings: dict[str, Any] = {"sentences": 16, "folds": 4, "estimator": "simpson", "tolerance": None}
    settings |= {"most_splits": 16, "dense": 2, "chords": 1, "heads": True, "minibatch": False, "parts": True}
    return Allocation(**settings | changed)


def make(folder: Path, **settings: Any) -> Trainer:
    return trainer(folder, rows=150, evaluated=150, **{"max_steps": 5} | settings)


def test_the_lines_of_the_documentation_write_the_tables(tmp_path: Path) -> None:
    exec(lines("docs/allocation.md", "add_callback"), {"trainer": make(tmp_path, max_steps=20)})
    closure = pd.read_parquet(tmp_path / "closure.parquet")
    assert closure["closed"].all()
    allocation = pd.read_parquet(tmp_path / "allocation.parquet")
    assert (allocation.loc[allocation["update"] == 20, "value"] != 0).any()


@pytest.mark.parametrize("masks", [False, True])
def test_it_closes_resumes_and_changes_nothing(tmp_path: Path, masks: bool) -> None:
    """Saved at update 3 of 5, resumed there: the same bytes. The callback draws from no generator of the training."""
    saved = {"save_strategy": "steps", "save_steps": 3, "masks": masks, "max_grad_norm": 0.0}
    plain = make(tmp_path / "plain", **saved)
    plain.train()
    whole = make(tmp_path / "whole", **saved)
    whole.add_callback(ObserverCallback(observer(minibatch=True), whole))
    whole.train()
    for name, value in plain.model.state_dict().items():
        assert torch.equal(value, whole.model.state_dict()[name]), name
    tables = {path.name: path.read_bytes() for path in (tmp_path / "whole").glob("*.parquet")}
    assert tables.keys() == {"allocation.parquet", "closure.parquet", "minibatch.parquet"}
    closure = pd.read_parquet(tmp_path / "whole/closure.parquet")
    assert closure["closed"].all()
    assert closure["gap"].abs().max() < 1e-3
    if masks:
        return  # a resumed Trainer draws other masks for training
    rest = make(tmp_path / "whole", **saved)
    rest.add_callback(ObserverCallback(observer(minibatch=True), rest))
    rest.train(resume_from_checkpoint=str(tmp_path / "whole/checkpoint-3"))
    assert {path.name: path.read_bytes() for path in (tmp_path / "whole").glob("*.parquet")} == tables


def test_the_divisor_of_token_losses_is_the_number_of_labels(tmp_path: Path) -> None:
    masking = make(tmp_path, masks=True)
    data, rows = TrainerData(masking), np.arange(20)
    batches = [data.batch("train", part, None) for part in data.plan("train", None, rows)]
    assert data.weight("train", rows, None) == sum((batch["labels"] != -100).sum() for batch in batches)
    again = data.batch("train", data.plan("train", None, rows)[0], None)
    assert (again["input_ids"] == batches[0]["input_ids"]).all()
    inputs = {name: torch.from_numpy(value) for name, value in batches[0].items()}
    model = masking.model.eval()
    logits = model(**{name: value for name, value in inputs.items() if name != "labels"}).logits
    labels = inputs["labels"].flatten()
    summed = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels, reduction="sum")
    torch.testing.assert_close(data.forward(model, inputs).loss, summed)
    sentences = TrainerData(make(tmp_path / "classes"))
    assert sentences.weight("validation", rows, None) == 20


@pytest.mark.parametrize("most", [1, 8, 32])
def test_losses_and_divisors_are_of_the_same_random_masks(tmp_path: Path, most: int) -> None:
    """A fold's losses are of smaller batches than evaluation on a CPU, and each draws masks of its own."""
    masking = make(tmp_path, masks=True, per_device_eval_batch_size=most)
    data, model = TrainerData(masking), masking.model.eval()
    line = Packed(members(model)), model, Ranks(masking.accelerator)
    parts = folded_set(data, "train", line, sentences=96, folds=3)
    labels = [[batch["labels"] for batch in part] for part in parts.parts]
    assert list(parts.weights) == [sum((one != -100).sum() for one in part) for part in labels]
    masks = [tuple(row[:4] != -100) for part in labels for batch in part for row in batch.numpy()]
    assert len({*masks}) > 4, "each batch draws its own"


def test_a_batch_without_a_label_has_no_loss(tmp_path: Path) -> None:
    masking = make(tmp_path, masks=True)
    data, rows = TrainerData(masking), np.arange(4)
    inputs = {name: torch.from_numpy(value) for name, value in data.batch("train", rows, None).items()}
    found = data.forward(masking.model.eval(), inputs | {"labels": torch.full_like(inputs["labels"], -100)}).loss
    assert found == 0
    assert all((one == 0).all() for one in torch.autograd.grad(found, [*masking.model.parameters()], allow_unused=True,
                                                                materialize_grads=True))  # fmt: skip


@pytest.mark.parametrize(
    "minibatch, evaluated, line",
    [
        (True, True, r"max_grad_norm: 1\.0, but allocation needs .*=0 .* or minibatch=False"),
        (False, False, "give the Trainer an eval_dataset"),
    ],
    ids=["clipped gradients", "no evaluation data"],
)
def test_a_trainer_that_cannot_be_allocated_is_refused(
    tmp_path: Path, minibatch: bool, evaluated: bool, line: str
) -> None:
    refused = make(tmp_path)
    refused.eval_dataset = refused.eval_dataset if evaluated else None
    refused.add_callback(ObserverCallback(observer(minibatch=minibatch), refused))
    with pytest.raises(InputError, match=line):
        refused.train()


def test_sharding_is_refused(tmp_path: Path) -> None:
    """The Trainer turns FSDP on only among several processes; this is the flag that it then has."""
    sharded = make(tmp_path)
    sharded.is_fsdp_enabled = True
    with pytest.raises(InputError, match="FSDP and DeepSpeed shard"):
        ObserverCallback(observer(), sharded).on_train_begin(sharded.args, sharded.state, sharded.control)


def test_a_checkpoint_without_the_observers_state_cannot_be_resumed(tmp_path: Path) -> None:
    saved = {"save_strategy": "steps", "save_steps": 3}
    make(tmp_path, **saved).train()
    rest = make(tmp_path, **saved)
    rest.add_callback(ObserverCallback(observer(), rest))
    with pytest.raises(InputError, match="resumes at update 4 from a checkpoint without its state"):
        rest.train(resume_from_checkpoint=str(tmp_path / "checkpoint-3"))


def test_the_defaults_are_those_of_the_overlay() -> None:
    overlay = read_yaml(ROOT, Path("variants/settings/allocated.yaml"))
    given = inspect.signature(Allocation).parameters
    asked = Settings(**overlay["training"]["allocation"]).model_dump()
    assert {name: one.default for name, one in given.items()} == asked


def test_its_arguments_have_the_types_and_bounds_of_the_section() -> None:
    """The section is checked without torch, so it is written down twice."""
    given, asked = (kind.model_json_schema()["properties"] for kind in (options_of(OBSERVERS["allocation"]), Settings))
    for one in (*given.values(), *asked.values()):
        one.pop("default", None)
    assert given.keys() - asked.keys() == {"kind"}
    assert {name: given[name] for name in asked} == asked


@pytest.mark.parametrize(
    "changed, line",
    [
        (
            {"estimator": "simson"},
            "Allocation: estimator: expected 'first_order', 'trapezoid' or 'simpson', got 'simson'",
        ),
        ({"folds": 1}, "Allocation: folds: expected greater than or equal to 2, got 1"),
        ({"folds": 32}, "folds 32 exceed sentences 16"),
    ],
)
def test_an_invalid_argument_is_refused_before_training(changed: dict[str, Any], line: str) -> None:
    with pytest.raises(InputError, match=re.escape(line)):
        observer(**changed)


def test_tables_of_an_earlier_training_do_not_stay_beside_new_ones(tmp_path: Path) -> None:
    for minibatch in (True, False):
        other = make(tmp_path, max_steps=3, max_grad_norm=0)
        other.add_callback(ObserverCallback(observer(minibatch=minibatch), other))
        other.train()
        assert (tmp_path / "minibatch.parquet").is_file() is minibatch


PLACE = Place(-1, "first")


def watching(folder: Path, **settings: Any) -> Trainer:
    given = {"max_steps": 6, "logging_steps": 2, "eval_strategy": "steps", "eval_steps": 3} | settings
    return trainer(folder, rows=24, evaluated=16, dropout=0.0, **given)


def logged(trainer: Trainer, name: str) -> dict[int, float]:
    return {one["step"]: one[name] for one in trainer.state.log_history if name in one}


def points(trainer: Trainer, rows: list[dict[str, Tensor]]) -> np.ndarray:
    batch = {name: torch.stack([row[name] for row in rows]) for name in ("input_ids", "attention_mask")}
    with torch.no_grad():
        states = trainer.model.eval()(**batch, output_hidden_states=True).hidden_states[-1]
    return states[:, 0].double().numpy()


@pytest.mark.parametrize("parts", [1, 4])
def test_the_lines_of_the_documentation_log_anisotropy(tmp_path: Path, parts: int) -> None:
    """At learning rate 0 the weights stay, so the whole batch can be read again afterwards."""
    seen: list[list[int]] = []
    sizes = {"per_device_train_batch_size": 8 // parts, "gradient_accumulation_steps": parts}
    watched = watching(tmp_path, learning_rate=0.0, **sizes)
    watched.model.register_forward_pre_hook(
        lambda model, args, given: seen.append(given["input_ids"].tolist()) if model.training else None,
        with_kwargs=True,
    )
    exec(lines("docs/plugins.md", "add_callback"), {"trainer": watched})
    found = logged(watched, "step/a_1")
    assert sorted(found) == [2, 4, 6]
    by_ids = {tuple(row["input_ids"].tolist()): row for row in watched.train_dataset}
    for step, value in found.items():
        batches = seen[(step - 1) * parts : step * parts]
        rows = [by_ids[tuple(ids)] for batch in batches for ids in batch]
        assert len(rows) == 8
        assert value == pytest.approx(batch_metrics(points(watched, rows))["a_1"], rel=1e-5)
    sample = sample_metrics(
        points(watched, watched.eval_dataset).astype(np.float32),
        np.array([int(row["labels"]) for row in watched.eval_dataset]),
        clusters=4,
    )
    assert sorted(logged(watched, "validation/a_1")) == [3, 6]
    assert logged(watched, "validation/a_1")[3] == pytest.approx(sample["a_1"], rel=1e-5)
    assert logged(watched, "validation/between_share")[6] == pytest.approx(sample["between_share"], rel=1e-4)


def test_it_changes_nothing_in_the_training(tmp_path: Path) -> None:
    plain, watched = (watching(tmp_path / name) for name in ("plain", "watched"))
    watched.add_callback(ObserverCallback(Watch(PLACE, sample=16, clusters=2), watched))
    for one in (plain, watched):
        one.train()
    for name, value in plain.model.state_dict().items():
        assert torch.equal(value, watched.model.state_dict()[name]), name
