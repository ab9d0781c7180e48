"""A convolution over (sequence, hidden) whose channels are the tables."""

import math
from typing import Annotated, Any, Literal

from annotated_types import Interval

from isoscope.base.entry import refuse
from isoscope.fusions.tables import (
    Activation,
    Count,
    Normalisation,
    Tables,
    TokenType,
    check_tables,
    drops_token_type,
)
from isoscope.plugins import fusion

EARLIER = {"kernel": "learned", "hidden_axes": "natural"}
"""Options that the configurations of earlier checkpoints lack, with the values that those encoders had."""


def check(o: Any) -> None:
    """Raise `ValueError` if options do not agree."""
    check_tables(o)
    permuted, identity = o.hidden_axes == "permuted", o.start == "identity"
    refuse(
        (any(k % 2 == 0 for k in o.kernel_size), f"kernel_size {list(o.kernel_size)} must be odd in both directions"),
        (
            permuted and o.kernel_size[1] == 1,
            "hidden_axes 'permuted' changes nothing for a kernel of width 1 over hidden dimensions",
        ),
        (
            permuted and identity and o.kernel == "frozen",
            "hidden_axes 'permuted' changes nothing for a frozen delta kernel",
        ),
        (
            identity and (o.activation, o.normalisation) != ("none", "none"),
            "start 'identity' needs activation 'none' and normalisation 'none' to equal adding",
        ),
        (o.start == "residual" and o.gate is not None, "start 'residual' has its own gate: set gate to null"),
        (
            o.start != "random" and drops_token_type(o),
            f"start {o.start!r} equals adding, token type included: set token_type to 'add'",
        ),
    )


@fusion("conv2d", check=check, earlier=EARLIER)
def conv2d(
    hidden_size: int,
    sources: Tables,
    token_type: TokenType,
    normalisation: Normalisation,
    start: Literal["random", "identity", "residual"],
    kernel_size: tuple[Count, Count],
    kernel: Literal["learned", "frozen"],
    hidden_axes: Literal["natural", "permuted"],
    activation: Activation,
    bias: bool,
    gate: Annotated[float, Interval(ge=0, le=1)] | None,
    causal: bool = False,
) -> Any:
    """A convolution over (sequence, hidden) whose channels are the sources.

    - `start`: random: random kernel of Li 2025 (fusion); identity: delta kernel, equal to the sum; residual: w + t + p
      + g·f with g = 0 initially.
    - `kernel_size`: Kernel size over positions and over hidden dimensions; both odd.
    - `kernel`: frozen: the kernel keeps its initial values.
    - `hidden_axes`: permuted: the kernel sees the hidden dimensions in a fixed random order; the output is in the
      natural order.
    - `activation`: Activation after the convolution.
    - `bias`: Add a bias to the convolution.
    - `gate`: Initial value of the learned gate r in (1 − r)(w + p) + r·conv; null: no gate.
    """
    import torch
    from torch import Tensor, nn

    from isoscope.fusions.correlation import correlate
    from isoscope.fusions.sources import ACTIVATIONS, Sources, added

    permuted = hidden_axes == "permuted"

    class Conv2d(Sources):
        """`act(Σ_c K_c ∗ source_c + b)`, K and b uniform in ±1/√(sources · kh · kw) unless the start is the identity.

        A random order of hidden dimensions is the same for every model of that width. The kernel sees zeros at padding;
        with `causal` it sees no later token. Parameters: sources · kh · kw unless frozen, + 1 for a bias, + 1 for a
        gate.
        """

        looks_around = True
        order: Tensor
        natural: Tensor

        def __init__(self) -> None:
            super().__init__(sources, token_type, normalisation, start)
            self.activation = ACTIVATIONS[activation]
            self.past = kernel_size[0] - 1 if causal else kernel_size[0] // 2
            kernels, own = torch.zeros(len(self.sources), *kernel_size), torch.zeros(())
            if start == "identity":
                kernels[:, self.past, kernel_size[1] // 2] = 1.0
            else:
                bound = 1.0 / math.sqrt(kernels.numel())
                kernels.uniform_(-bound, bound)
                own = own.uniform_(-bound, bound) if bias else own
            if kernel == "learned":
                self.weight = nn.Parameter(kernels)
            else:
                self.register_buffer("weight", kernels)
            if permuted:
                order = torch.randperm(hidden_size, generator=torch.Generator().manual_seed(0), device="cpu")
                self.register_buffer("order", order)
                self.register_buffer("natural", order.argsort())
            self.bias = nn.Parameter(own) if bias else None
            gated = start == "residual" or gate is not None
            self.gate = nn.Parameter(torch.tensor(float(gate or 0.0))) if gated else None

        def forward(self, word: Tensor, position: Tensor, token_type: Tensor, mask: Tensor | None = None) -> Tensor:
            sources = list(self.chosen(word, position, token_type).values())
            seen = [self.normalised(source) for source in sources]
            if permuted:
                seen = [source[..., self.order] for source in seen]
            fused = correlate(seen, self.weight, mask=mask, past=self.past)
            if permuted:
                fused = fused[..., self.natural]
            if self.bias is not None:
                fused = fused + self.bias
            if self.activation is not None:
                fused = self.activation(fused)
            if self.gate is not None:
                if start == "residual":
                    return torch.addcmul(added(word, position, token_type), self.gate, fused)
                fused = torch.lerp(sum(sources[1:], start=sources[0]), fused, self.gate)
            return fused + token_type if self.adds_token_type else fused

    return Conv2d()
