"""How steady the gradient of the embedding block is from batch to batch, by part of the block."""

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.nn import functional as F

from isoscope.data.batches import collate
from isoscope.data.probe import ProbeSet
from isoscope.inside.block import GRADIENTS as PARTS

_CALLED = {
    "word_embeddings": "word",
    "position_embeddings": "position",
    "token_type_embeddings": "token_type",
    "LayerNorm": "norm",
    "fusion": "fusion",
}


def block_gradients(
    model: nn.Module, probe: ProbeSet, *, pad_id: int, batch_size: int, batches: int, seed: int
) -> npt.NDArray[np.float32]:
    """Squared norm of the gradient, trace of its covariance over batches, and their number, by part `[5, 3]`; NaN
    without a part.

    At most `batches` of `batch_size` sentences of the probe set, drawn by `seed` without replacement, dropout off,
    cross-entropy of the classifier `model` (logits `[B, C]`). The trace is the unbiased variance over batches, summed
    over parameters; the squared norm is that of the mean less trace / batches, which noise adds to it: unbiased, and
    below 0 where noise is all there is. Leaves the model's gradients empty.
    """
    device = next(model.parameters()).device
    parts: dict[str, list[nn.Parameter]] = {name: [] for name in PARTS}
    before = {one: one.requires_grad for one in model.parameters()}
    for name, parameter in model.named_parameters():
        found = name.partition("embeddings.")[2].partition(".")[0]
        parameter.requires_grad_(name.split(".")[1:2] == ["embeddings"] and found in _CALLED)
        if parameter.requires_grad:
            parts[_CALLED[found]].append(parameter)
    wanted = [one for several in parts.values() for one in several]
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
    for one, needed in before.items():
        one.requires_grad_(needed)
    place = {id(one): number for number, one in enumerate(wanted)}
    rows_out = np.full((len(PARTS), 3), np.nan, np.float32)
    for row, name in enumerate(PARTS):
        if parts[name] and count > 1:
            numbers = [place[id(one)] for one in parts[name]]
            mean = sum(float((total[number] / count).double().square().sum()) for number in numbers)
            spread = max((sum(float(squares[number]) for number in numbers) - count * mean) / (count - 1), 0.0)
            rows_out[row] = mean - spread / count, spread, count
    return rows_out
