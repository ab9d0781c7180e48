"""Every source of randomness has its own generator, and `strict` holds."""

import random
from pathlib import Path

import numpy as np
import pytest
import torch

from isoscope.base.errors import RunError
from isoscope.data import embedded, tokens
from isoscope.data.batches import collate, draw_fraction, epoch_batches
from isoscope.training.determinism import choose_kernels, seed_dropout
from isoscope.training.ranks import in_one_line
from training_runs import make_loop


@pytest.fixture(autouse=True)
def restored():
    yield
    choose_kernels("strict")


def masks(seed: int, rank: int, count: int = 20_000) -> torch.Tensor:
    seed_dropout("strict", seed, rank=rank)
    return torch.nn.functional.dropout(torch.ones(count), 0.1) == 0


def test_masks_of_processes_have_one_rate_and_nothing_in_common() -> None:
    drawn = [masks(seed, rank).double() for seed in (0, 1) for rank in range(4)]
    for one in drawn:
        assert float(one.mean()) == pytest.approx(0.1, abs=5 * (0.09 / len(one)) ** 0.5)
    correlations = np.corrcoef(torch.stack(drawn).numpy())
    off = correlations[~np.eye(len(drawn), dtype=bool)]
    assert np.abs(off).max() < 5 / len(drawn[0]) ** 0.5
    assert torch.equal(masks(0, 1), masks(0, 1))


def test_dropout_and_weights_do_not_share_a_stream(tmp_path: Path) -> None:
    """With one seed for both, the first mask would use the random numbers of the first weights."""
    seed_dropout("strict", 0)
    ours = torch.rand(1000)
    torch.manual_seed(0)
    assert not torch.equal(ours, torch.rand(1000))


def test_off_takes_its_masks_from_the_system() -> None:
    seed_dropout("off", 0)
    first = torch.rand(8)
    seed_dropout("off", 0)
    assert not torch.equal(first, torch.rand(8))


def test_data_draw_nothing_from_the_global_generators(tmp_path: Path) -> None:
    def states() -> tuple[object, ...]:
        numpy_state = np.random.get_state()  # noqa: NPY002 - what must not be touched
        return random.getstate(), numpy_state[1].tolist(), numpy_state[2], torch.get_rng_state().tolist()

    before = states()
    corpus = embedded.generate("sentiment", size=300, difficulty=2, seed=0)
    table = corpus.splits["train"]
    tokenizer = tokens.train_wordpiece(table["sentence"].to_pylist(), tmp_path, vocab_size=200, lowercase=True)
    encoded = tokens.encode(tokenizer, table, max_length=32)
    encoded = encoded.take(draw_fraction(encoded.labels, 0.5, seed=3))
    for rows in epoch_batches(encoded.lengths, batch_size=8, seed=3, epoch=1, bucket=4):
        collate(encoded, rows, pad_id=0)
    assert states() == before


class Put(torch.nn.Module):
    """An operation that torch has in no deterministic form."""

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        index = torch.zeros(values.numel(), dtype=torch.long)
        return values.clone().put_(index, values.detach().flatten(), accumulate=False)


@pytest.mark.parametrize("mode, raises", [("strict", True), ("seeded", False), ("off", False)])
def test_strict_refuses_what_cannot_be_deterministic(tmp_path: Path, mode: str, raises: bool) -> None:
    loop = make_loop(tmp_path, determinism=mode)
    choose_kernels(loop.settings.determinism)
    loop.raw_model.classifier = torch.nn.Sequential(loop.raw_model.classifier, Put())
    if raises:
        with pytest.raises(RunError, match=r"training\.determinism: .*put_"), in_one_line():
            loop.fit()
    else:
        loop.test(0)


def test_another_error_is_not_taken_for_a_refusal() -> None:
    with pytest.raises(RuntimeError, match="shape mismatch"), in_one_line():
        raise RuntimeError("shape mismatch")
