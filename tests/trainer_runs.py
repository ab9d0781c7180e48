"""transformers' Trainer on a tiny BERT, and the documentation's lines for it, for the tests of training."""

import re
from pathlib import Path
from typing import Any

import torch
from transformers import BertConfig, BertForMaskedLM, BertForSequenceClassification, Trainer, TrainingArguments

ROOT = Path(__file__).parents[1]
SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}


def lines(page: str, text: str) -> str:
    """The first Python block of a page that has this text."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text("utf-8"), re.S)
    return next(block for block in blocks if text in block)


def masked(rows: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    """A collator that masks at random, like transformers' for masked language models."""
    batch = {name: torch.stack([row[name] for row in rows]) for name in ("input_ids", "attention_mask")}
    chosen = (torch.rand(batch["input_ids"].shape) < 0.4) & batch["attention_mask"].bool()
    chosen[:, 0] = True
    labels = batch["input_ids"].where(chosen, -100)
    return batch | {"input_ids": batch["input_ids"].where(~chosen, 1), "labels": labels}


def trainer(
    folder: Path, *, rows: int, evaluated: int, masks: bool = False, dropout: float = 0.1, **settings: Any
) -> Trainer:
    """A Trainer of texts of unequal lengths, 8 to an update, evaluated on others."""
    torch.manual_seed(0)
    kind = BertForMaskedLM if masks else BertForSequenceClassification
    model = kind(BertConfig(vocab_size=30, hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout, **SIZES))
    generator, texts = torch.Generator().manual_seed(1), []
    for number in range(rows + evaluated):
        mask = (torch.arange(7) < 3 + number % 5).long()
        ids = torch.randint(2, 30, (7,), generator=generator) * mask
        texts.append({"input_ids": ids, "attention_mask": mask, "labels": torch.tensor(int(ids[0] > 15))})
    given = {"per_device_train_batch_size": 8, "learning_rate": 1e-2, "save_strategy": "no"} | settings
    told = TrainingArguments(folder, report_to=[], use_cpu=True, disable_tqdm=True, **given)
    own = {"data_collator": masked} if masks else {}
    return Trainer(model, told, train_dataset=texts[:rows], eval_dataset=texts[rows:], **own)
