"""Loss change allocation in a real Trainer: the documentation's lines, closure, divisors, masks, refusals."""

import inspect
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from transformers import BertConfig, BertForMaskedLM, BertForSequenceClassification, Trainer, TrainingArguments

from isoscope.base.errors import InputError
from isoscope.base.registry import OBSERVERS
from isoscope.platform.config.kinds import options_of
from isoscope.platform.config.training import Allocation as Settings
from isoscope.platform.config.tree import read_yaml
from isoscope.training.observers.lca import Allocation
from isoscope.training.observers.trainer_callback import ObserverCallback, TrainerData

ROOT = Path(__file__).parents[2]
DOCS = (ROOT / "docs/allocation.md").read_text("utf-8")
LINES = next(block for block in re.findall(r"```python\n(.*?)```", DOCS, re.S) if "add_callback" in block)
SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}

pytestmark = pytest.mark.filterwarnings("ignore")


def observer(**changed: Any) -> Allocation:
    settings: dict[str, Any] = {"sentences": 16, "folds": 4, "estimator": "simpson", "tolerance": None}
    settings |= {"most_splits": 16, "dense": 2, "chords": 1, "heads": True, "minibatch": False, "parts": True}
    return Allocation(**settings | changed)


def masked(rows: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    """A collator that masks at random, like transformers' for masked language models."""
    batch = {name: torch.stack([row[name] for row in rows]) for name in ("input_ids", "attention_mask")}
    chosen = (torch.rand(batch["input_ids"].shape) < 0.4) & batch["attention_mask"].bool()
    chosen[:, 0] = True
    labels = batch["input_ids"].where(chosen, -100)
    return batch | {"input_ids": batch["input_ids"].where(~chosen, 1), "labels": labels}


def make(folder: Path, *, masks: bool = False, **settings: Any) -> Trainer:
    torch.manual_seed(0)
    kind = BertForMaskedLM if masks else BertForSequenceClassification
    model = kind(BertConfig(vocab_size=30, **SIZES))
    generator, rows = torch.Generator().manual_seed(1), []
    for number in range(300):
        mask = (torch.arange(7) < 3 + number % 5).long()
        ids = torch.randint(2, 30, (7,), generator=generator) * mask
        rows.append({"input_ids": ids, "attention_mask": mask, "labels": torch.tensor(int(ids[0] > 15))})
    given = {"per_device_train_batch_size": 8, "max_steps": 5, "learning_rate": 1e-2, "save_strategy": "no"} | settings
    told = TrainingArguments(folder, report_to=[], use_cpu=True, disable_tqdm=True, **given)
    own = {"data_collator": masked} if masks else {}
    return Trainer(model, told, train_dataset=rows[:150], eval_dataset=rows[150:], **own)


def test_the_lines_of_the_documentation_write_the_tables(tmp_path: Path) -> None:
    trainer = make(tmp_path, max_steps=20)
    exec(LINES, {"trainer": trainer})
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
    trainer = make(tmp_path, masks=True)
    data, rows = TrainerData(trainer), np.arange(20)
    batches = [data.batch("train", part, None) for part in data.plan("train", None, rows)]
    assert data.weight("train", rows, None) == sum((batch["labels"] != -100).sum() for batch in batches)
    again = data.batch("train", data.plan("train", None, rows)[0], None)
    assert (again["input_ids"] == batches[0]["input_ids"]).all()
    inputs = {name: torch.from_numpy(value) for name, value in batches[0].items()}
    model = trainer.model.eval()
    logits = model(**{name: value for name, value in inputs.items() if name != "labels"}).logits
    labels = inputs["labels"].flatten()
    summed = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels, reduction="sum")
    torch.testing.assert_close(data.forward(model, inputs).loss, summed)
    sentences = TrainerData(make(tmp_path / "classes"))
    assert sentences.weight("validation", rows, None) == 20


@pytest.mark.parametrize(
    "minibatch, evaluated, line",
    [
        (True, True, r"max_grad_norm: 1\.0, but allocation needs .*=0, or minibatch=False"),
        (False, False, "give the Trainer an eval_dataset"),
    ],
    ids=["clipped gradients", "no evaluation data"],
)
def test_a_trainer_that_cannot_be_allocated_is_refused(
    tmp_path: Path, minibatch: bool, evaluated: bool, line: str
) -> None:
    trainer = make(tmp_path)
    trainer.eval_dataset = trainer.eval_dataset if evaluated else None
    trainer.add_callback(ObserverCallback(observer(minibatch=minibatch), trainer))
    with pytest.raises(InputError, match=line):
        trainer.train()


def test_sharding_is_refused(tmp_path: Path) -> None:
    """The Trainer turns FSDP on only among several processes; this is the flag that it then has."""
    trainer = make(tmp_path)
    trainer.is_fsdp_enabled = True
    callback = ObserverCallback(observer(), trainer)
    with pytest.raises(InputError, match="FSDP and DeepSpeed shard"):
        callback.on_train_begin(trainer.args, trainer.state, trainer.control)


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
        trainer = make(tmp_path, max_steps=3, max_grad_norm=0)
        trainer.add_callback(ObserverCallback(observer(minibatch=minibatch), trainer))
        trainer.train()
        assert (tmp_path / "minibatch.parquet").is_file() is minibatch
