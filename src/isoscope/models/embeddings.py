"""The embedding block of any family with a word and a position table, with the fusion as a separate module."""

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from isoscope.base.errors import InputError, brief
from isoscope.base.registry import FUSIONS


def rope_angles(width: int) -> Tensor:
    """Return RoPE's angles per position, `10000^(−2k/D)` for k = 0, 1, …: one per frequency between DC and Nyquist.

    Source: Su et al. 2021 (https://arxiv.org/abs/2104.09864), section 3.2.2. Shape `[(D − 1) // 2]`, radians, fp32.
    """
    return 10000.0 ** (-2.0 * torch.arange((width - 1) // 2, device="cpu", dtype=torch.float32) / width)


class SinusoidalPositions(nn.Module):
    """A fixed table of sines (even columns) and cosines (odd columns); a drop-in for a learned position table.

    Source: Vaswani et al. 2017 (https://arxiv.org/abs/1706.03762), section 3.5. Multiplied by √2 · `scale`: the rows
    have the root mean square of a table drawn from N(0, scale²).
    """

    weight: Tensor

    def __init__(self, table: nn.Embedding, *, scale: float) -> None:
        """Take the place of `table`, with as many rows."""
        super().__init__()
        self.num_embeddings, self.embedding_dim, self.scale = table.num_embeddings, table.embedding_dim, scale
        self.padding_idx = table.padding_idx
        self.register_buffer("weight", self.rows().to(table.weight.device))

    def rows(self) -> Tensor:
        """Return all rows, `[positions, D]`, fp32."""
        column = torch.arange(self.embedding_dim, device="cpu")
        rates = 10000.0 ** (-2.0 * (column // 2) / self.embedding_dim)
        turns = torch.arange(self.num_embeddings, device="cpu")[:, None] * rates
        return torch.where(column % 2 == 0, turns.sin(), turns.cos()) * (2**0.5 * self.scale)

    def forward(self, rows: Tensor) -> Tensor:
        """Return the vectors of `rows` `[…]`: `[…, D]`."""
        return nn.functional.embedding(rows, self.weight)


class FractionalPositions(nn.Module):
    """Rows `p_m = F⁻¹(e^{imθ})`, the m-th power of one unitary vector; a drop-in for a position table.

    θ is `rope_angles`, learned or fixed. DC and, at an even width, Nyquist have angle 0, so that rows are real. Rows
    have unit magnitude at each frequency and length 1, and ⟨w ⊛ p_m, v ⊛ p_n⟩ depends on m − n only.
    """

    def __init__(self, table: nn.Embedding, *, learned: bool) -> None:
        """Take the place of `table`, with as many rows."""
        super().__init__()
        self.num_embeddings, self.embedding_dim = table.num_embeddings, table.embedding_dim
        self.padding_idx = table.padding_idx
        angles = rope_angles(self.embedding_dim).to(table.weight.device)
        if learned:
            self.angles = nn.Parameter(angles)
        else:
            self.register_buffer("angles", angles)

    @property
    def weight(self) -> Tensor:
        """All rows, `[positions, D]`."""
        return self(torch.arange(self.num_embeddings, device=self.angles.device))

    def forward(self, rows: Tensor) -> Tensor:
        """Return the vectors of `rows` `[…]`: `[…, D]`. Half-precision angles are used in fp32."""
        exact = self.angles.float() if self.angles.dtype in (torch.float16, torch.bfloat16) else self.angles
        turns = nn.functional.pad(rows[..., None] * exact, (1, 1 - self.embedding_dim % 2))
        spectrum = torch.polar(torch.ones_like(turns), turns)
        return torch.fft.irfft(spectrum, n=self.embedding_dim).to(self.angles.dtype)


class FusedTables(nn.Module):
    """`Dropout(LayerNorm(fusion(word, position, token type)))` over the tables of a family's own embedding block.

    The tables and the LayerNorm keep the family's names, so a plain checkpoint loads; the fusion's parameters are
    `fusion.*`. A kernel or a custom fusion sees zeros at padding. Autocast is off in this block: sums of three tables
    cost nothing, and every layer above would see their rounding errors. A family without token types has zeros. A
    fusion whose `layer_norm` is false has no LayerNorm after it.
    """

    word_embeddings: Any
    position_embeddings: Any
    position_ids: Any
    LayerNorm: Any
    dropout: Any
    token_type_embeddings: Any
    token_type_ids: Any

    def __init__(self, config: Any, plain: nn.Module) -> None:
        """Take over the parts of the block `plain` of a model with this configuration."""
        super().__init__()
        if not hasattr(plain, "token_type_embeddings"):
            self.token_type_embeddings = self.token_type_ids = None
        for name, part in plain.named_children():
            self.add_module(name, part)
        for name, values in plain.named_buffers(recurse=False):
            self.register_buffer(name, values, persistent=False)
        self.order = [*inspect.signature(type(plain).forward).parameters][1:]
        """Names of the plain block's arguments."""
        self.mask: Tensor | None = None
        width, causal = self.word_embeddings.embedding_dim, getattr(config, "is_decoder", False)
        self.fusion_options = dict(config.fusion)
        self.given = {"hidden_size": width, "causal": causal, "init_std": config.init_std}
        self.fusion, self._unseen = self.fresh_fusion(), True
        if getattr(self.fusion, "layer_norm", True) is False:
            self.LayerNorm = nn.Identity()
        for part in self.fusion.modules():
            setattr(part, "of_fusion", True)  # noqa: B010 (not a parameter: marks who initialises it)
        if self.token_type_embeddings is None and "token_type" in getattr(self.fusion, "sources", ()):
            raise InputError(
                f"model.fusion.sources: token_type, but a model of the type {config.model_type!r} has none; remove it"
            )
        if config.positions == "sinusoidal":
            self.position_embeddings = SinusoidalPositions(self.position_embeddings, scale=config.init_std)
        elif self.fusion_options["kind"] == "fft" and self.fusion.positions != "table":
            learned = self.fusion.positions == "learned"
            self.position_embeddings = FractionalPositions(self.position_embeddings, learned=learned)

    def fresh_fusion(self) -> nn.Module:
        """Return a new, initialised fusion from its own random stream; on the meta device, build it on the CPU.

        The stream is seeded from the global generator, whose state stays unchanged. So weights drawn afterwards are the
        same for every fusion: arms that differ only in their fusion start from the same encoder.
        """
        on_meta = torch.get_default_device().type == "meta"
        with torch.random.fork_rng(devices=[]), torch.device("cpu") if on_meta else nullcontext():
            torch.default_generator.manual_seed(int(torch.randint(2**62, (), device="cpu")))
            return build_fusion(self.fusion_options, **self.given)

    @contextmanager
    def seeing(self, mask: Tensor | None) -> Iterator[None]:
        """Give the attention mask of a forward pass, which the families do not pass to their embedding block."""
        self.mask = mask
        try:
            yield
        finally:
            self.mask = None

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        """Return the embeddings; arguments as those of the plain block, and `attention_mask`."""
        return self._embedded(**dict(zip(self.order, args, strict=False)), **kwargs)

    def _embedded(
        self,
        input_ids: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        past_key_values_length: int = 0,
        attention_mask: Tensor | None = None,
    ) -> Tensor:
        word = self.word_embeddings(input_ids) if inputs_embeds is None else inputs_embeds
        rows = self.rows(input_ids, word, past_key_values_length) if position_ids is None else position_ids
        position = self.position_embeddings(rows)
        token_type = position  # a placeholder that the fusion ignores
        if getattr(self.fusion, "uses_token_type", True):
            token_type = self._token_types(token_type_ids, word, position_ids)
        mask = self.mask if attention_mask is None else attention_mask
        with torch.autocast(word.device.type, enabled=False):
            fused = self._fused(word, position, token_type, mask, position_ids)
        return self.dropout(self.LayerNorm(fused))

    def rows(self, input_ids: Tensor | None, word: Tensor, past: int) -> Tensor:
        """Return rows of the position table after `past` tokens, `[B, L]` or `[1, L]`.

        0, 1, 2, …, at padding too; of a table with a row for padding, as RoBERTa's, they begin after that row, which
        all padding has. Raises `InputError` if there are too few.
        """
        table, length = self.position_embeddings, word.shape[1]
        first = 0 if table.padding_idx is None else table.padding_idx + 1
        if length > (most := table.num_embeddings - first):
            raise InputError(f"{length} tokens, but the position table has only {most} rows")
        if first and input_ids is not None:
            text = input_ids.ne(table.padding_idx).int()
            return (((text.cumsum(1).type_as(text) + past) * text).long()) + table.padding_idx
        return self.position_ids[:, first + past : first + past + length]

    def _token_types(self, rows: Tensor | None, word: Tensor, position_ids: Tensor | None) -> Tensor:
        """Return vectors of token types; by default of one type, gathered as in BERT, for long packed texts."""
        if self.token_type_embeddings is None:
            return word.new_zeros(1, 1, word.shape[-1])
        if rows is None:
            rows = self.token_type_ids[:, : word.shape[1]]
            if position_ids is not None:
                rows = self.token_type_ids.expand(position_ids.shape[0], -1).gather(1, position_ids)
        return self.token_type_embeddings(rows)

    def _fused(
        self,
        word: Tensor,
        position: Tensor,
        token_type: Tensor,
        attention_mask: Tensor | None,
        position_ids: Tensor | None,
    ) -> Tensor:
        looks_around = getattr(self.fusion, "looks_around", None)  # no class check: an adapter may wrap a fusion
        if looks_around is False:
            return self.fusion(word, position, token_type)
        mask = None if attention_mask is None else _column(attention_mask, word)
        if position_ids is not None:
            _check_one_text(position_ids, mask, padding=self.position_embeddings.padding_idx)
        if looks_around:
            return self.fusion(word, position, token_type, mask)
        mask = word.new_ones(*word.shape[:2], 1) if mask is None else mask
        fused = self.fusion(*(table.expand_as(word) * mask for table in (word, position, token_type)), mask)
        check_fused(fused, word, kind=self.fusion_options["kind"], first=self._unseen)
        self._unseen = False
        return fused


def _column(attention_mask: Tensor, word: Tensor) -> Tensor:
    if attention_mask.shape != word.shape[:2]:
        raise InputError(
            f"attention_mask of shape {list(attention_mask.shape)}: a fusion over neighbouring tokens needs "
            f"[batch, tokens] = {list(word.shape[:2])}, which says which tokens are padding"
        )
    return attention_mask.bool().to(word.dtype).unsqueeze(-1)


def _check_one_text(position_ids: Tensor, mask: Tensor | None, *, padding: int | None) -> None:
    """Check that positions rise from token to token; else raise `InputError`.

    They do not rise if several texts are packed into one row: a fusion over neighbouring tokens would mix them.
    `generate` restarts positions after right padding, too. Padding may have any position, or the row `padding`.
    """
    text = position_ids if mask is None else position_ids.where(mask[..., 0].bool(), -1)
    text = text if padding is None else text.where(text != padding, -1)
    before = F.pad(text.cummax(-1).values[:, :-1], (1, 0), value=-1)
    anew = (text >= 0) & (text <= before)
    hint = "a fusion reads neighbouring tokens, so put each text in its own row, and pad on the left for generation"
    if torch.compiler.is_compiling():  # a graph cannot branch on a tensor's values
        torch._assert_async(~anew.any(), f"position_ids: {hint}")
    elif anew.any():
        row, token = anew.nonzero()[0].tolist()
        raise InputError(f"position_ids: row {row} restarts at token {token}: {hint}")


def build_fusion(fusion: Mapping[str, Any], *, hidden_size: int, causal: bool, init_std: float) -> nn.Module:
    """Build the module that `fusion` describes: `kind`, a built-in name or a registered plugin's, and its options.

    `init_std` is the standard deviation of the tables at the start. A plugin in a `causal` encoder must set
    `causal = True` on its module: it uses no later token. Raises `InputError` for an unknown kind, for missing or
    unknown options, and for invalid values: a config.json may have any.
    """
    options = dict(fusion)
    kind = options.pop("kind", None)
    if kind not in FUSIONS:
        known = ", ".join(FUSIONS)
        raise InputError(f"model.fusion.kind: {kind!r} is none of {known}; a custom fusion must be loaded as a plugin")
    entry = FUSIONS[kind]
    complete = entry.checked(options, "model.fusion")
    module = entry.make(complete, hidden_size=hidden_size, causal=causal, init_std=init_std)
    if not isinstance(module, nn.Module):
        raise InputError(f"{entry.title}: returns {brief(module)}; expected a torch.nn.Module")
    if causal and not entry.built_in and getattr(module, "causal", False) is not True:
        raise InputError(
            f"model.fusion.kind: {kind!r} does not set `causal = True` on its module, so a causal model cannot use it"
        )
    return module


def check_fused(fused: Any, word: Tensor, *, kind: str, first: bool) -> None:
    """Check a plugin's output: shape and type of `word`, and finite if `first`; else raise `InputError`."""
    title = FUSIONS[kind].title if kind in FUSIONS else f"fusion {kind!r}"
    if not isinstance(fused, Tensor) or fused.shape != word.shape or fused.dtype != word.dtype:
        found = f"{list(fused.shape)} of {fused.dtype}" if isinstance(fused, Tensor) else brief(fused)
        raise InputError(f"{title}: returns {found}; expected {list(word.shape)} of {word.dtype}")
    if first and not bool(fused.isfinite().all()):
        raise InputError(f"{title}: returns NaN or infinity for the first batch")
