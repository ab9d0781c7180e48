"""Measure the gradient noise of the embedding block: how much its gradient varies between batches, by part."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from isoscope.data.arrays import Vectors
from isoscope.data.batches import collate
from isoscope.data.probe import ProbeSet
from isoscope.states.trajectory import GRADIENTS as PARTS

_CALLED = {
    "word_embeddings": "word",
    "position_embeddings": "position",
    "token_type_embeddings": "token_type",
    "LayerNorm": "norm",
    "fusion": "fusion",
}


def block_gradients(
    model: nn.Module, probe: ProbeSet, *, pad_id: int, batch_size: int, batches: int, seed: int
) -> Vectors:
    """Return squared gradient norm, trace of its covariance over batches, and number of batches, by part `[5, 3]`.

    NaN for a missing part. Uses at most `batches` of `batch_size` sentences of the probe set, drawn by `seed` without
    replacement, without dropout, with cross-entropy of the classifier `model` (logits `[B, C]`). The trace is the
    unbiased variance over batches, summed over parameters. The squared norm is that of the mean gradient minus trace /
    batches, which corrects for noise: it is unbiased, and may be below 0 if the gradient is noise only. Leaves the
    model's gradients empty.
    """
    device = next(model.parameters()).device
    parts, wanted = [], []
    for name, parameter in model.named_parameters():
        found = name.partition("embeddings.")[2].partition(".")[0]
        if name.split(".")[1:2] == ["embeddings"] and found in _CALLED:
            parts.append(_CALLED[found])
            wanted.append(parameter)
    order = np.random.default_rng(seed).permutation(len(probe.encoded.ids))
    count = min(batches, len(order) // batch_size)
    total = [torch.zeros_like(one) for one in wanted]
    squares = torch.zeros(len(wanted), dtype=torch.float64)
    model.eval()
    for rows in order[: count * batch_size].reshape(count, batch_size):
        batch = collate(probe.encoded, rows, pad_id=pad_id)
        ids, mask, types, labels = (
            torch.from_numpy(one).to(device)
            for one in (batch.input_ids, batch.attention_mask, batch.token_type_ids, batch.labels)
        )
        logits = model(input_ids=ids, attention_mask=mask, token_type_ids=types).logits
        drawn = torch.autograd.grad(F.cross_entropy(logits, labels), wanted, allow_unused=True)
        for number, gradient in enumerate(drawn):
            if gradient is not None:
                total[number] += gradient
                squares[number] += float(gradient.double().square().sum())
    noise = np.full((len(PARTS), 3), np.nan, np.float32)
    for row, name in enumerate(PARTS):
        numbers = [number for number, part in enumerate(parts) if part == name]
        if numbers and count > 1:
            mean = sum(float((total[number] / count).double().square().sum()) for number in numbers)
            spread = max((sum(float(squares[number]) for number in numbers) - count * mean) / (count - 1), 0.0)
            noise[row] = mean - spread / count, spread, count
    return noise
