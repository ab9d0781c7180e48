"""Observers in a real Trainer: the documentation's code, against the observer called directly."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

from isoscope.objectives import Place
from isoscope.training.anisotropy import batch_figures, sample_figures
from isoscope.training.observers.trainer_callback import ObserverCallback
from isoscope.training.observers.watch import Watch

DOCS = (Path(__file__).parents[2] / "docs/plugins.md").read_text("utf-8")
LINES = next(block for block in re.findall(r"```python\n(.*?)```", DOCS, re.S) if "add_callback" in block)
PLACE = Place(-1, "first")

pytestmark = pytest.mark.filterwarnings("ignore")


def make(folder: Path, **settings: Any) -> Trainer:
    """A Trainer of 24 rows of unequal lengths, 8 to an update, evaluated on 16 others."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    model = BertForSequenceClassification(BertConfig(vocab_size=30, **sizes, **dropout))
    generator = torch.Generator().manual_seed(1)
    rows = []
    for number in range(40):
        mask = (torch.arange(7) < 3 + number % 5).long()
        ids = torch.randint(1, 30, (7,), generator=generator) * mask
        rows.append({"input_ids": ids, "attention_mask": mask, "labels": torch.tensor(number % 2)})
    asked = {"per_device_train_batch_size": 8, "max_steps": 6, "logging_steps": 2, "learning_rate": 1e-2} | settings
    asked = {"save_strategy": "no"} | asked
    told = TrainingArguments(folder, report_to=[], use_cpu=True, disable_tqdm=True, **asked)
    return Trainer(model, told, train_dataset=rows[:24], eval_dataset=rows[24:])


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
    trainer = make(tmp_path, learning_rate=0.0, eval_strategy="steps", eval_steps=3, **sizes)
    trainer.model.register_forward_pre_hook(
        lambda model, args, given: seen.append(given["input_ids"].tolist()) if model.training else None,
        with_kwargs=True,
    )
    exec(LINES, {"trainer": trainer})
    found = logged(trainer, "step/a_1")
    assert sorted(found) == [2, 4, 6]
    by_ids = {tuple(row["input_ids"].tolist()): row for row in trainer.train_dataset}
    for step, value in found.items():
        batches = seen[(step - 1) * parts : step * parts]
        rows = [by_ids[tuple(ids)] for batch in batches for ids in batch]
        assert len(rows) == 8
        assert value == pytest.approx(batch_figures(points(trainer, rows))["a_1"], rel=1e-5)
    sample = sample_figures(
        points(trainer, trainer.eval_dataset).astype(np.float32),
        np.array([int(row["labels"]) for row in trainer.eval_dataset]),
        clusters=4,
    )
    assert sorted(logged(trainer, "validation/a_1")) == [3, 6]
    assert logged(trainer, "validation/a_1")[3] == pytest.approx(sample["a_1"], rel=1e-5)
    assert logged(trainer, "validation/between_share")[6] == pytest.approx(sample["between_share"], rel=1e-4)


def test_it_changes_nothing_in_the_training(tmp_path: Path) -> None:
    weights = []
    for watched in (False, True):
        trainer = make(tmp_path / str(watched), eval_strategy="steps", eval_steps=3)
        if watched:
            trainer.add_callback(ObserverCallback(Watch(PLACE, sample=16, clusters=2), trainer))
        trainer.train()
        weights.append(trainer.model.state_dict())
    for name, value in weights[0].items():
        assert torch.equal(value, weights[1][name]), name
