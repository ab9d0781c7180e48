"""Fuse word, position and token-type embeddings: add them, convolve them in 2D, weigh them, or bind them circularly.

Each fusion is a module `forward(word, position, token_type, mask) -> [B, L, D]`. The three tables' rows are `[B, L,
D]`, or `[1, L, D]` if every sentence has the same rows. `mask` is `[B, L, 1]`, 1 at tokens and 0 at padding (None: no
padding). `uses_token_type` says whether the fusion reads the third table, `looks_around` whether it reads neighbouring
tokens. Options are those of `model.fusion` (`isoscope.platform.config.fusion`).
"""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import torch
from pydantic import ValidationError
from torch import Tensor, nn
from torch.nn import functional as F

from isoscope import plugins
from isoscope.base.errors import InputError, brief
from isoscope.models.binding import FFT
from isoscope.models.correlation import correlate
from isoscope.models.sources import Sources, added
from isoscope.platform.config.base import Section
from isoscope.platform.config.explain import explain
from isoscope.platform.config.fusion import BUILT_IN, EARLIER, Table


class Additive(nn.Module):
    """`(w + t) + p`, as in BERT (https://arxiv.org/abs/1810.04805). No parameters."""

    uses_token_type = True
    looks_around = False

    def forward(self, word: Tensor, position: Tensor, token_type: Tensor, mask: Tensor | None = None) -> Tensor:
        return added(word, position, token_type)


class Scaled(nn.Module):
    """`(√D · w + t) + p`: word embeddings scaled as in Vaswani et al. 2017 (https://arxiv.org/abs/1706.03762).

    √D is the square root of the hidden size. No parameters.
    """

    uses_token_type = True
    looks_around = False

    def __init__(self, hidden_size: int) -> None:
        super().__init__()
        self.factor = math.sqrt(hidden_size)

    def forward(self, word: Tensor, position: Tensor, token_type: Tensor, mask: Tensor | None = None) -> Tensor:
        return added(self.factor * word, position, token_type)


class Conv2d(Sources):
    """A convolution over (sequence, hidden) whose channels are the sources: `act(Σ_c K_c ∗ source_c + b)`.

    - `start` random: `K` and `b` uniform in ±1/√(sources · kh · kw).
    - `start` identity: delta kernels and b = 0, which gives the sum of the sources.
    - `start` residual: `(w + t) + p + g · act(…)`, a learned scalar g = 0 at the start, K and b as in random.
    - `gate` r: `(1 − r) · Σ_c source_c + r · act(…)`, r learned, starting from the given value.
    - `token_type="add"` then adds t, unless t is a source.
    - `normalisation="l2"` scales each source vector to unit length before the kernel.
    - `kernel` frozen: K keeps its initial values. `hidden_axes` permuted: the kernel sees the hidden dimensions in a
      random order, the same for every model of that width, and its output returns to the natural order.

    The kernel sees zeros at padding; with `causal` it sees no later token. Parameters: sources · kh · kw
    unless frozen, + 1 for a bias, + 1 for a gate.
    """

    looks_around = True
    order: Tensor
    natural: Tensor

    def __init__(
        self,
        *,
        start: Literal["random", "identity", "residual"],
        kernel_size: Sequence[int],
        kernel: Literal["learned", "frozen"],
        hidden_axes: Literal["natural", "permuted"],
        activation: Literal["gelu", "none"],
        bias: bool,
        gate: float | None,
        sources: Sequence[Table],
        token_type: Literal["add", "ignore"],
        normalisation: Literal["none", "l2"],
        hidden_size: int,
        causal: bool = False,
    ) -> None:
        super().__init__(sources, token_type, normalisation, start)
        self.activation: Callable[[Tensor], Tensor] | None = F.gelu if activation == "gelu" else None
        self.past = kernel_size[0] - 1 if causal else kernel_size[0] // 2
        kernels = torch.empty(len(self.sources), *kernel_size)
        if kernel == "learned":
            self.weight = nn.Parameter(kernels)
        else:
            self.register_buffer("weight", kernels)
        if hidden_axes == "permuted":
            order = torch.randperm(hidden_size, generator=torch.Generator().manual_seed(0), device="cpu")
            self.register_buffer("order", order)
            self.register_buffer("natural", order.argsort())
        self.permuted = hidden_axes == "permuted"
        self.bias = nn.Parameter(torch.empty(())) if bias else None
        self.gate_start = gate or 0.0
        self.gate = nn.Parameter(torch.empty(())) if start == "residual" or gate is not None else None
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Initialise the parameters as `start` of the class says."""
        bound = 1.0 / math.sqrt(self.weight.numel())
        if self.start == "identity":
            self.weight.zero_()
            self.weight[:, self.past, self.weight.shape[2] // 2] = 1.0
        else:
            self.weight.uniform_(-bound, bound)
        if self.bias is not None:
            self.bias.zero_() if self.start == "identity" else self.bias.uniform_(-bound, bound)
        if self.gate is not None:
            self.gate.fill_(self.gate_start)

    def forward(self, word: Tensor, position: Tensor, token_type: Tensor, mask: Tensor | None = None) -> Tensor:
        sources = list(self.chosen(word, position, token_type).values())
        seen = [self.normalised(source) for source in sources]
        if self.permuted:
            seen = [source[..., self.order] for source in seen]
        fused = correlate(seen, self.weight, mask=mask, past=self.past)
        if self.permuted:
            fused = fused[..., self.natural]
        if self.bias is not None:
            fused = fused + self.bias
        if self.activation is not None:
            fused = self.activation(fused)
        if self.gate is not None:
            if self.start == "residual":
                return torch.addcmul(added(word, position, token_type), self.gate, fused)
            fused = torch.lerp(sum(sources[1:], start=sources[0]), fused, self.gate)
        return fused + token_type if self.adds_token_type else fused


class Linear(Sources):
    """A weighted sum of the sources, `act(Σ_c a_c[⌊j · blocks / D⌋] · source_c[j])`; it mixes neither tokens nor axes.

    A control for Conv2D with as many parameters, sources · blocks, drawn like a kernel's: uniform in ±1/√(sources ·
    blocks). `token_type="add"` then adds t, unless t is a source.
    """

    def __init__(
        self,
        *,
        blocks: int,
        activation: Literal["gelu", "none"],
        sources: Sequence[Table],
        token_type: Literal["add", "ignore"],
        normalisation: Literal["none", "l2"],
        hidden_size: int,
    ) -> None:
        super().__init__(sources, token_type, normalisation)
        if blocks > hidden_size:
            raise InputError(f"model.fusion.blocks: {blocks}, but the encoder has {hidden_size} hidden dimensions")
        self.activation: Callable[[Tensor], Tensor] | None = F.gelu if activation == "gelu" else None
        self.weight = nn.Parameter(torch.empty(len(self.sources), blocks))
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Initialise the weights as the class says."""
        self.weight.uniform_(-(self.weight.numel() ** -0.5), self.weight.numel() ** -0.5)

    def forward(self, word: Tensor, position: Tensor, token_type: Tensor, mask: Tensor | None = None) -> Tensor:
        sources = [self.normalised(source) for source in self.chosen(word, position, token_type).values()]
        of = torch.arange(word.shape[-1], device=word.device) * self.weight.shape[1] // word.shape[-1]
        weights = self.weight[:, of]
        fused = sum(
            (row * source for row, source in zip(weights[1:], sources[1:], strict=True)), weights[0] * sources[0]
        )
        if self.activation is not None:
            fused = self.activation(fused)
        return fused + token_type if self.adds_token_type else fused


MODULES: dict[str, Callable[..., nn.Module]] = {
    "additive": Additive,
    "scaled": Scaled,
    "conv2d": Conv2d,
    "linear": Linear,
    "fft": FFT,
}


def build_fusion(fusion: Mapping[str, Any], *, hidden_size: int, causal: bool, init_std: float) -> nn.Module:
    """Build the module that `fusion` describes: `kind`, a built-in name or a registered plugin's, and its options.

    `init_std` is the standard deviation of the tables at the start. A plugin in a `causal` encoder must set
    `causal = True` on its module: it uses no later token. Raises `InputError` for an unknown kind, for missing or
    unknown options, and for invalid values.
    """
    kind = fusion.get("kind")
    given = {"hidden_size": hidden_size, "causal": causal, "init_std": init_std}
    if kind in MODULES:
        takes = inspect.signature(MODULES[kind]).parameters
        return MODULES[kind](
            **_checked(fusion, kind, BUILT_IN[kind]), **{name: value for name, value in given.items() if name in takes}
        )
    if kind not in plugins.FUSIONS:
        known = ", ".join([*MODULES, *plugins.FUSIONS])
        raise InputError(f"model.fusion.kind: {kind!r} is none of {known}; a custom fusion must be loaded as a plugin")
    plugin = plugins.FUSIONS[kind]
    module = plugin.factory(hidden_size=hidden_size, **_checked(fusion, kind, plugin.options))
    if not isinstance(module, nn.Module):
        raise InputError(f"{plugin.title}: returns {brief(module)}; expected a torch.nn.Module")
    if causal and getattr(module, "causal", False) is not True:
        raise InputError(
            f"model.fusion.kind: {kind!r} does not set `causal = True` on its module, so a causal model cannot use it"
        )
    return module


def _checked(fusion: Mapping[str, Any], kind: str, options: type[Section]) -> dict[str, Any]:
    """Return the options of a fusion, checked as in params.yaml: a config.json may have any."""
    tree = EARLIER.get(kind, {}) | dict(fusion)
    try:
        return options.model_validate(tree).model_dump(exclude={"kind"})
    except ValidationError as error:
        raise InputError(*explain(options, tree, error, lambda _: "model.fusion")) from None


def check_fused(fused: Any, word: Tensor, *, kind: str, first: bool) -> None:
    """Check a plugin's output: shape and type of `word`, and finite if `first`; else raise `InputError`."""
    title = plugins.FUSIONS[kind].title if kind in plugins.FUSIONS else f"fusion {kind!r}"
    if not isinstance(fused, Tensor) or fused.shape != word.shape or fused.dtype != word.dtype:
        found = f"{list(fused.shape)} of {fused.dtype}" if isinstance(fused, Tensor) else brief(fused)
        raise InputError(f"{title}: returns {found}; expected {list(word.shape)} of {word.dtype}")
    if first and not bool(fused.isfinite().all()):
        raise InputError(f"{title}: returns NaN or infinity for the first batch")
