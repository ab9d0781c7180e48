"""The explicit convolution against the library's, in double precision."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from isoscope.fusions.correlation import correlate

B, L, D = 3, 5, 7


def material(sources: str, kernel: tuple[int, int], seed: int = 0) -> tuple[list[Tensor], Tensor, Tensor]:
    """Sources (o: each sentence's own, s: shared), kernels and a mask with padding on both sides."""
    draw = torch.Generator().manual_seed(seed)
    batches = {"o": B, "s": 1}
    tables = [torch.randn(batches[kind], L, D, generator=draw, dtype=torch.float64) for kind in sources]
    kernels = torch.randn(len(sources), *kernel, generator=draw, dtype=torch.float64)
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [0, 1, 1, 1, 0]], dtype=torch.float64).unsqueeze(-1)
    return [table.requires_grad_() for table in tables], kernels.requires_grad_(), mask


def by_library(sources: list[Tensor], kernels: Tensor, *, mask: Tensor | None, past: int) -> Tensor:
    h, w = kernels.shape[1:]
    channels = torch.stack([(table if mask is None else table * mask).expand(B, L, D) for table in sources], dim=1)
    bordered = F.pad(channels, (w // 2, w // 2, past, h - 1 - past))
    return F.conv2d(bordered, kernels.unsqueeze(0)).squeeze(1)


@pytest.mark.parametrize("causal", [False, True], ids=["centred", "causal"])
@pytest.mark.parametrize("masked", [False, True], ids=["whole", "padded"])
@pytest.mark.parametrize("kernel", [(1, 1), (1, 3), (3, 1), (3, 3), (5, 3), (3, 9)], ids=str)
@pytest.mark.parametrize("sources", ["o", "os", "oso"])
def test_value_and_gradients_are_those_of_conv2d(
    sources: str, kernel: tuple[int, int], masked: bool, causal: bool
) -> None:
    past = kernel[0] - 1 if causal else kernel[0] // 2
    results = []
    for compute in (correlate, by_library):
        tables, kernels, mask = material(sources, kernel)
        y = compute(tables, kernels, mask=mask if masked else None, past=past)
        (y * torch.arange(y.numel(), dtype=torch.float64).view(y.shape).cos()).sum().backward()
        results.append([y.detach(), kernels.grad, *(table.grad for table in tables)])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


def test_gradients_are_those_of_finite_differences() -> None:
    tables, kernels, mask = material("os", (3, 3))
    assert torch.autograd.gradcheck(
        lambda kernels, *tables: correlate(tables, kernels, mask=mask, past=1), (kernels, *tables)
    )


def test_only_wanted_gradients_are_computed() -> None:
    tables, kernels, mask = material("os", (3, 3))
    tables = [table.detach() for table in tables]
    correlate(tables, kernels, mask=mask, past=1).sum().backward()
    assert kernels.grad is not None
    assert all(table.grad is None for table in tables)


def test_one_sentence_alone() -> None:
    (word, position), kernels, _ = material("os", (3, 3))
    whole = correlate([word, position], kernels, mask=None, past=1)
    for b in range(B):
        alone = correlate([word[b : b + 1], position], kernels, mask=None, past=1)
        torch.testing.assert_close(alone[0], whole[b], rtol=1e-13, atol=1e-13)
