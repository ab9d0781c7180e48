"""Tasks with a known optimum: copied and reversed texts, and Markov sources whose entropy is known."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from isoscope.data import tokens
from isoscope.objectives import Task, causal, masked, translation
from isoscope.training.optim import schedule_factor

pytestmark = pytest.mark.exhaustive
SYMBOLS = "abcdefgh"
ENCODER = {
    "kind": "scratch", "family": "bert", "layers": 2, "hidden_size": 64, "heads": 4, "intermediate_size": 256,
    "activation": "relu", "norm": "post", "positions": "learned", "max_positions": 40, "dropout": 0.0,
    "attention_dropout": 0.0, "init_std": 0.02, "initializer_range": 0.02, "tokenizer": {"kind": "task"},
}  # fmt: skip
LENGTH = 24
"""Symbols of a text of a Markov source."""


def task(folder: Path, texts: Callable[[int, int], pa.Table], rows: int) -> Task:
    for seed, (split, count) in enumerate({"train": rows, "validation": 200, "test": 400}.items()):
        pq.write_table(texts(count, seed), folder / f"{split}.parquet")
    tokens.train_wordpiece([" ".join(SYMBOLS)] * 9, folder / "tokenizer", vocab_size=40, lowercase=True)
    columns = pq.read_schema(folder / "train.parquet").names
    return Task(folder, {"labels": [], "columns": columns}, folder / "tokenizer", 40, 1.0, 64, 4, 0)


def trained(objective: Any, *, epochs: int, rate: float = 2e-3) -> Any:
    model = objective.build({"encoder": ENCODER, "fusion": {"kind": "additive"}}, None).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.98), fused=True)
    steps = [(epoch, rows) for epoch in range(1, epochs + 1) for rows in objective.plan("train", epoch)]
    for step, (epoch, rows) in enumerate(steps):
        optimizer.param_groups[0]["lr"] = rate * schedule_factor("linear", step, total=len(steps), warmup=0.1)
        (loss_of(objective, model, "train", rows, epoch)[0] / objective.weight("train", rows, epoch)).backward()
        optimizer.step()
        optimizer.zero_grad()
    return model.eval()


def loss_of(objective: Any, model: Any, split: str, rows: np.ndarray, epoch: int | None) -> tuple[Any, Any]:
    batch = {name: torch.from_numpy(one) for name, one in objective.batch(split, rows, epoch).items()}
    found = objective.forward(model, batch)
    return found.loss, objective.tally(found.tally.numpy())


@torch.no_grad()
def loss_on_test(objective: Any, model: Any) -> float:
    tallies = [loss_of(objective, model, "test", rows, None)[1] for rows in objective.plan("test", None)]
    return float(sum(one.loss for one in tallies) / sum(one.tokens for one in tallies))


@pytest.mark.parametrize("order", [1, -1], ids=["copy", "reverse"])
def test_an_encoder_decoder_copies_and_reverses(tmp_path: Path, order: int) -> None:
    def pairs(rows: int, seed: int) -> pa.Table:
        draw = np.random.default_rng(seed)
        texts = [draw.choice(list(SYMBOLS), draw.integers(3, 9)) for _ in range(rows)]
        columns = [" ".join(one) for one in texts], [" ".join(one[::order]) for one in texts]
        return pa.table(list(columns), ["sentence1", "sentence2"])

    made = translation.Translation(task(tmp_path, pairs, 6000), beams=1, sentences=None, tied=True, tokenize="13a")
    model = trained(made, epochs=20)
    rows = np.arange(400)
    right = sum(map(str.__eq__, made.translated(model, "test", rows), made.references("test", rows)))
    assert right >= 0.99 * len(rows)


def chain(order: int) -> np.ndarray:
    """Transition probabilities of a Markov source, peaked enough to be learned: `[S, …, S]`."""
    draw = np.random.default_rng(7)
    return draw.dirichlet(np.full(len(SYMBOLS), 0.3), size=(len(SYMBOLS),) * order)


def sampled(transitions: np.ndarray, rows: int, seed: int) -> np.ndarray:
    """Texts of `LENGTH` symbols; the first symbols of each are uniform."""
    order = transitions.ndim - 1
    draw = np.random.default_rng([11, seed])
    found = draw.integers(len(SYMBOLS), size=(rows, LENGTH))
    for place in range(order, LENGTH):
        before = tuple(found[:, place - order + one] for one in range(order))
        bounds = transitions[before].cumsum(-1)
        found[:, place] = (draw.random((rows, 1)) > bounds[:, :-1]).sum(-1)
    return found


def markov(transitions: np.ndarray) -> Callable[[int, int], pa.Table]:
    def texts(rows: int, seed: int) -> pa.Table:
        found = sampled(transitions, rows, seed)
        return pa.table([[" ".join(SYMBOLS[one] for one in row) for row in found]], ["sentence"])

    return texts


def test_a_causal_model_reaches_the_entropy_of_an_order_two_source(tmp_path: Path) -> None:
    transitions = chain(2)
    made = causal.Causal(task(tmp_path, markov(transitions), 12000), side="source", share=1.0, tied=True)
    found = loss_on_test(made, trained(made, epochs=12))
    symbols = sampled(transitions, 400, 2)
    known = -np.log(transitions[symbols[:, :-2], symbols[:, 1:-1], symbols[:, 2:]]).sum() + 800 * np.log(len(SYMBOLS))
    bound = known / (400 * (LENGTH + 1))  # the end is certain: all texts have one length
    assert bound <= found + 0.01
    assert found <= bound + 0.05


def test_a_masked_model_reaches_the_bound_of_forward_and_backward(tmp_path: Path) -> None:
    transitions = chain(1)
    made = masked.Masked(
        task(tmp_path, markov(transitions), 12000), side="source", rate=0.15, masked=1.0, random=0.0, tied=True
    )
    found = loss_on_test(made, trained(made, epochs=25))
    total = count = 0.0
    symbols = sampled(transitions, 400, 2)
    rows = np.arange(400)
    hidden = np.zeros((400, LENGTH), bool)
    batch = made.batch("test", rows, None)
    hidden[:] = batch["input_ids"][:, 1:-1] == made.texts.mask_id
    for row, unseen in zip(symbols, hidden, strict=True):
        seen = np.where(unseen[:, None], 1.0, np.eye(len(SYMBOLS))[row])
        forward, backward = seen.copy(), np.ones_like(seen)
        for place in range(1, LENGTH):
            forward[place] = seen[place] * (forward[place - 1] @ transitions)
            forward[place] /= forward[place].sum()
        for place in range(LENGTH - 2, -1, -1):
            backward[place] = transitions @ (seen[place + 1] * backward[place + 1])
            backward[place] /= backward[place].sum()
        chance = forward * backward
        chance /= chance.sum(-1, keepdims=True)
        total -= np.log(chance[np.flatnonzero(unseen), row[unseen]]).sum()
        count += unseen.sum()
    bound = total / count
    assert bound <= found + 0.02
    assert found <= bound + 0.05
