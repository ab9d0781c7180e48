"""The documentation's code for transformers' Trainer, run as written."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

from isoscope.penalties import PersistentEntropy
from trainer_runs import SIZES, lines


@pytest.mark.filterwarnings("ignore")
def test_the_lines_of_the_documentation_train_with_a_penalty(tmp_path: Path) -> None:
    seen: list[Any] = []

    def penalty(points: torch.Tensor, labels: torch.Tensor) -> Any:
        seen.append(PersistentEntropy("all", weight=0.3)(points, labels))
        return seen[-1]

    scope: dict[str, Any] = {"Trainer": Trainer, "penalty": penalty}
    exec(lines("docs/penalties.md", "Trainer"), scope)
    torch.manual_seed(0)
    model = BertForSequenceClassification(BertConfig(vocab_size=30, **SIZES))
    rows = [{"input_ids": torch.randint(1, 30, (6,)), "labels": torch.tensor(k % 2)} for k in range(16)]
    settings = TrainingArguments(tmp_path, max_steps=2, per_device_train_batch_size=8, report_to=[], use_cpu=True)
    loss = scope["WithPenalty"](model, settings, train_dataset=rows).train().training_loss
    assert len(seen) == 2
    assert seen[0].points.sum() == 8
    assert loss < 0.69 - 0.3, "the penalty is in the loss: minus 0.3 nats times the entropies"

    def accuracy(told: Any) -> dict[str, float]:
        return {"accuracy": float((told.predictions.argmax(-1) == told.label_ids).mean())}

    evaluated = [
        kind(model, settings, eval_dataset=rows, compute_metrics=accuracy).evaluate()
        for kind in (Trainer, scope["WithPenalty"])
    ]
    assert len(seen) == 2, "evaluation is the task's alone"
    for figure in ("eval_loss", "eval_accuracy"):
        assert evaluated[0][figure] == evaluated[1][figure]
