"""The documentation's code for transformers' Trainer, run as written."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

from isoscope.penalties import PersistentEntropy

DOCS = (Path(__file__).parents[2] / "docs/penalties.md").read_text("utf-8")


@pytest.mark.filterwarnings("ignore")
def test_the_lines_of_the_documentation_train_with_a_penalty(tmp_path: Path) -> None:
    lines = next(block for block in re.findall(r"```python\n(.*?)```", DOCS, re.S) if "Trainer" in block)
    seen: list[Any] = []

    def penalty(points: torch.Tensor, labels: torch.Tensor) -> Any:
        seen.append(PersistentEntropy("all", weight=0.3)(points, labels))
        return seen[-1]

    scope: dict[str, Any] = {"Trainer": Trainer, "penalty": penalty}
    exec(lines, scope)
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    model = BertForSequenceClassification(BertConfig(vocab_size=30, **sizes))
    rows = [{"input_ids": torch.randint(1, 30, (6,)), "labels": torch.tensor(k % 2)} for k in range(16)]
    settings = TrainingArguments(tmp_path, max_steps=2, per_device_train_batch_size=8, report_to=[], use_cpu=True)
    losses = [entry["train_loss"] for entry in _log(scope["WithPenalty"](model, settings, train_dataset=rows))]
    assert len(seen) == 2
    assert seen[0].points.sum() == 8
    assert losses[0] < 0.69 - 0.3, "the penalty is in the loss: minus 0.3 nats times the entropies"

    def accuracy(told: Any) -> dict[str, float]:
        return {"accuracy": float((told.predictions.argmax(-1) == told.label_ids).mean())}

    evaluated = [
        kind(model, settings, eval_dataset=rows, compute_metrics=accuracy).evaluate()
        for kind in (Trainer, scope["WithPenalty"])
    ]
    assert len(seen) == 2, "evaluation is the task's alone"
    for figure in ("eval_loss", "eval_accuracy"):
        assert evaluated[0][figure] == evaluated[1][figure]


def _log(trainer: Trainer) -> list[dict[str, Any]]:
    trainer.train()
    return [entry for entry in trainer.state.log_history if "train_loss" in entry]
