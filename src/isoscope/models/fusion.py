"""Fuse word, position and token-type embeddings: add them, convolve them in 2D, or bind them circularly.

Each fusion is a module `forward(word, position, token_type, mask) -> [B, L, D]`. The three tables' rows are `[B, L,
D]`, or `[1, L, D]` if every sentence has the same rows. `mask` is `[B, L, 1]`, 1 at tokens and 0 at padding (None: no
padding). `uses_token_type` says whether the fusion reads the third table, `looks_around` whether it reads neighbouring
tokens. Options are those of `model.fusion`.
"""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from isoscope import plugins
from isoscope.errors import InputError, brief
from isoscope.models.correlation import correlate

Table = Literal["word", "token_type", "position"]
TABLES: tuple[Table, ...] = get_args(Table)  # BERT's order of addition, and the order of a kernel's channels


def added(word: Tensor, position: Tensor, token_type: Tensor) -> Tensor:
    """Return `(w + t) + p`, added in the order of Hugging Face's BertModel, so the result is bitwise equal."""
    return (word + token_type) + position


def unit(source: Tensor) -> Tensor:
    """Scale vectors to unit length; zero vectors (padding) stay zero, even where fp16 rounds PyTorch's 1e-12 to 0."""
    return F.normalize(source, dim=-1, eps=max(1e-12, torch.finfo(source.dtype).tiny))


class Additive(nn.Module):
    """`(w + t) + p`, as in BERT (https://arxiv.org/abs/1810.04805). No parameters."""

    uses_token_type = True
    looks_around = False

    def forward(self, word: Tensor, position: Tensor, token_type: Tensor, mask: Tensor | None = None) -> Tensor:
        return added(word, position, token_type)


class _Sources(nn.Module):
    """A fusion of some of the tables, in the order of `TABLES`."""

    def __init__(
        self, sources: Sequence[str], token_type: str, normalisation: str, start: str, starts: tuple[str, ...]
    ) -> None:
        super().__init__()
        if len(set(sources)) < len(sources) or not {"word", "position"} <= set(sources) <= set(TABLES):
            raise InputError(
                f"model.fusion.sources: {list(sources)}; expected word and position, and token_type if it is fused too"
            )
        _check("start", start, starts)
        _check("token_type", token_type, ("add", "ignore"))
        _check("normalisation", normalisation, ("none", "l2"))
        if "token_type" in sources and token_type == "add":
            raise InputError(
                "model.fusion.token_type: 'add' would count the token type twice: it is one of the sources"
            )
        if "token_type" not in sources and token_type == "ignore" and start != "random":
            raise InputError(f"model.fusion.token_type: start {start!r} adds the token type: set 'add'")
        self.start, self.normalisation = start, normalisation
        self.sources = tuple(table for table in TABLES if table in sources)
        self.adds_token_type = token_type == "add"
        self.uses_token_type = self.adds_token_type or "token_type" in sources or start == "residual"

    def chosen(self, word: Tensor, position: Tensor, token_type: Tensor) -> list[Tensor]:
        """Return the vectors of the sources."""
        tables = {"word": word, "token_type": token_type, "position": position}
        return [tables[name] for name in self.sources]


class Conv2d(_Sources):
    """A convolution over (sequence, hidden) whose channels are the sources: `act(Σ_c K_c ∗ source_c + b)`.

    - `start` random: `K` and `b` uniform in ±1/√(sources · kh · kw).
    - `start` identity: delta kernels and b = 0, which gives the sum of the sources.
    - `start` residual: `(w + t) + p + g · act(…)`, a learned scalar g = 0 at the start, K and b as in random.
    - `gate` r: `(1 − r) · Σ_c source_c + r · act(…)`, r learned, starting from the given value.
    - `token_type="add"` then adds t, unless t is a source.
    - `normalisation="l2"` scales each source vector to unit length before the kernel.

    The kernel sees zeros at padding; with `causal` it sees no later token. Parameters: sources · kh · kw, + 1 for a
    bias, + 1 for a gate.
    """

    looks_around = True

    def __init__(
        self,
        *,
        start: Literal["random", "identity", "residual"],
        kernel_size: Sequence[int],
        activation: Literal["gelu", "none"],
        bias: bool,
        gate: float | None,
        sources: Sequence[Table],
        token_type: Literal["add", "ignore"],
        normalisation: Literal["none", "l2"],
        causal: bool = False,
    ) -> None:
        super().__init__(sources, token_type, normalisation, start, ("random", "identity", "residual"))
        _check("activation", activation, ("gelu", "none"))
        if len(kernel_size) != 2 or any(size < 1 or size % 2 == 0 for size in kernel_size):
            raise InputError(
                f"model.fusion.kernel_size: {list(kernel_size)}; expected two odd numbers, over sequence and hidden: "
                "an even kernel has no centre"
            )
        if start == "identity" and (activation, normalisation) != ("none", "none"):
            raise InputError("model.fusion.start: 'identity' needs activation 'none' and normalisation 'none'")
        if start == "residual" and gate is not None:
            raise InputError("model.fusion.gate: start 'residual' has its own gate: set gate to null")
        self.activation: Callable[[Tensor], Tensor] | None = F.gelu if activation == "gelu" else None
        self.past = kernel_size[0] - 1 if causal else kernel_size[0] // 2
        self.weight = nn.Parameter(torch.empty(len(self.sources), *kernel_size))
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
        sources = self.chosen(word, position, token_type)
        seen = [unit(source) for source in sources] if self.normalisation == "l2" else sources
        fused = correlate(seen, self.weight, mask=mask, past=self.past)
        if self.bias is not None:
            fused = fused + self.bias
        if self.activation is not None:
            fused = self.activation(fused)
        if self.gate is not None:
            if self.start == "residual":
                return torch.addcmul(added(word, position, token_type), self.gate, fused)
            fused = torch.lerp(sum(sources[1:], start=sources[0]), fused, self.gate)
        return fused + token_type if self.adds_token_type else fused


class FFT(_Sources):
    """Circular convolution of the sources along the hidden axis, `F⁻¹(Π_c F(source_c))` (Plate's holographic binding).

    `(a ⊛ b)_j = Σ_k a_k b_{(j − k) mod D}`; `token_type="add"` then adds t, unless t is a source. `start` random: the
    product alone, no parameters. residual: `(w + t) + p + g · (…)`, a learned scalar g = 0 at the start.
    `normalisation="l2"` scales each source vector to unit length first. Half-precision sources are transformed in fp32,
    since not every device and width has a half-precision transform. Positions never mix.
    """

    looks_around = False

    def __init__(
        self,
        *,
        start: Literal["random", "residual"],
        sources: Sequence[Table],
        token_type: Literal["add", "ignore"],
        normalisation: Literal["none", "l2"],
    ) -> None:
        super().__init__(sources, token_type, normalisation, start, ("random", "residual"))
        self.gate = nn.Parameter(torch.empty(())) if start == "residual" else None
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Set the gate of a residual start to 0."""
        if self.gate is not None:
            self.gate.zero_()

    def forward(self, word: Tensor, position: Tensor, token_type: Tensor, mask: Tensor | None = None) -> Tensor:
        spectra = [self._spectrum(source) for source in self.chosen(word, position, token_type)]
        bound = torch.fft.irfft(math.prod(spectra[1:], start=spectra[0]), n=word.shape[-1]).to(word.dtype)
        if self.gate is not None:
            return torch.addcmul(added(word, position, token_type), self.gate, bound)
        return bound + token_type if self.adds_token_type else bound

    def _spectrum(self, source: Tensor) -> Tensor:
        source = source.float() if source.dtype in (torch.float16, torch.bfloat16) else source
        return torch.fft.rfft(unit(source) if self.normalisation == "l2" else source)


BUILT_IN: dict[str, type[nn.Module]] = {"additive": Additive, "conv2d": Conv2d, "fft": FFT}


def build_fusion(fusion: Mapping[str, Any], *, hidden_size: int, causal: bool) -> nn.Module:
    """Build the module that `fusion` describes: `kind`, a built-in name or a registered plugin's, and its options.

    A plugin in a `causal` encoder must set `causal = True` on its module: it uses no later token. Raises `InputError`
    for an unknown kind, for missing or unknown options, and for invalid values.
    """
    options = dict(fusion)
    kind = options.pop("kind", None)
    if kind in BUILT_IN:
        given = {"causal": causal} if kind == "conv2d" else {}
        return _call(BUILT_IN[kind], kind, options, given)
    if kind not in plugins.FUSIONS:
        known = ", ".join([*BUILT_IN, *plugins.FUSIONS])
        raise InputError(f"model.fusion.kind: {kind!r} is none of {known}; a custom fusion must be loaded as a plugin")
    module = _call(plugins.FUSIONS[kind].factory, kind, options, {"hidden_size": hidden_size})
    if not isinstance(module, nn.Module):
        raise InputError(f"{plugins.FUSIONS[kind].title}: returns {brief(module)}; expected a torch.nn.Module")
    if causal and getattr(module, "causal", False) is not True:
        raise InputError(
            f"model.fusion.kind: {kind!r} does not set `causal = True` on its module, so a causal model cannot use it"
        )
    return module


def check_fused(fused: Any, word: Tensor, *, kind: str, first: bool) -> None:
    """Check a plugin's output: shape and type of `word`, and finite if `first`; else raise `InputError`."""
    title = plugins.FUSIONS[kind].title if kind in plugins.FUSIONS else f"fusion {kind!r}"
    if not isinstance(fused, Tensor) or fused.shape != word.shape or fused.dtype != word.dtype:
        found = f"{list(fused.shape)} of {fused.dtype}" if isinstance(fused, Tensor) else brief(fused)
        raise InputError(f"{title}: returns {found}; expected {list(word.shape)} of {word.dtype}")
    if first and not bool(fused.isfinite().all()):
        raise InputError(f"{title}: returns NaN or infinity for the first batch")


def _call(make: Callable[..., nn.Module], kind: str, options: dict[str, Any], given: dict[str, Any]) -> nn.Module:
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = {name: one for name, one in inspect.signature(make).parameters.items() if one.kind in named}
    extra = options.keys() - (parameters.keys() - given.keys())
    if extra:
        raise InputError(f"model.fusion: kind {kind!r} has no option {', '.join(sorted(extra))}")
    given = given | options
    lacking = [name for name, one in parameters.items() if one.default is one.empty and name not in given]
    if lacking:
        raise InputError(f"model.fusion: kind {kind!r} lacks {', '.join(lacking)}")
    return make(**given)


def _check(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise InputError(f"model.fusion.{name}: {value!r} is none of {', '.join(allowed)}")
