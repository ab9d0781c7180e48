"""What a fusion adds to a family of transformers: settings, embedding block, weight initialisation, pre-norm layers.

A family's own classes are extended: its encoder builds itself, then its embedding block becomes `FusedTables`.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from itertools import chain
from threading import RLock
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from transformers import initialization as init
from transformers.models.bert.modeling_bert import BertAttention, BertEncoder, BertLayer

from isoscope.base.errors import InputError
from isoscope.models.embeddings import FractionalPositions, FusedTables, SinusoidalPositions, rope_angles

_BUILDING = RLock()


@dataclass(kw_only=True, repr=False, eq=False)  # keep the library's methods: they know all fields
class FusionSettings:
    """The configuration fields that a fusion adds to its family's configuration.

    `fusion` is `model.fusion` of the configuration. `init_std` is the standard deviation of the word, position and
    token-type tables, `initializer_range` that of all other weight matrices. `norm` and `positions`: as in
    `model.encoder`. `use_cache` is always False.
    """

    fusion: dict[str, Any] = field(default_factory=lambda: {"kind": "additive"})
    init_std: float = 0.02
    norm: str = "post"
    positions: str = "learned"
    use_cache: bool = False

    def __post_init__(self, **kwargs: Any) -> None:
        self.use_cache = False  # a published encoder says True, which only decoders use
        super().__post_init__(**kwargs)  # type: ignore[misc]  # the family's configuration comes after


class FusedPreTrained:
    """Initialises the weights of every family's models."""

    config: Any

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Initialise one module, so that no library default decides; `init` skips tensors from a checkpoint."""
        if getattr(module, "of_fusion", False):
            return  # initialised with the embeddings, by its own code
        if isinstance(module, nn.Linear):
            init.normal_(module.weight, std=self.config.initializer_range)
            if module.bias is not None:
                init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            init.normal_(module.weight, std=self.config.init_std)
            if module.padding_idx is not None and not getattr(module.weight, "_is_hf_initialized", False):
                module.weight[module.padding_idx].zero_()
        elif isinstance(module, FractionalPositions):
            words: Any = self.get_input_embeddings()  # type: ignore[attr-defined]
            if not getattr(words.weight, "_is_hf_initialized", False):
                # The table that it replaces draws as many numbers: later weights are the same for every fusion.
                torch.empty(module.num_embeddings, module.embedding_dim, device="cpu").normal_()
            init.copy_(module.angles, rope_angles(module.embedding_dim))
        elif isinstance(module, SinusoidalPositions):
            init.copy_(module.weight, module.rows())
        elif isinstance(module, nn.LayerNorm):
            init.ones_(module.weight)
            init.zeros_(module.bias)
        elif isinstance(bias := getattr(module, "bias", None), nn.Parameter):  # of a language model's head
            init.zeros_(bias)
        elif isinstance(module, FusedTables):
            init.copy_(module.position_ids, torch.arange(module.position_ids.shape[-1]).expand((1, -1)))
            if module.token_type_ids is not None:
                init.zeros_(module.token_type_ids)
            held = dict(chain(module.fusion.named_parameters(), module.fusion.named_buffers()))
            fresh = module.fresh_fusion()
            for name, value in chain(fresh.named_parameters(), fresh.named_buffers()):
                init.copy_(held[name], value)


class FusedHead:
    """A family's model with a head; its encoder is the fusion's."""

    encoder: ClassVar[tuple[type[Any], type[Any]]]
    """The family's encoder and the fusion's."""
    config: Any

    def __init__(self, config: Any) -> None:
        """Build the encoder and the head. Raises `InputError` if the head needs another mask."""
        name, causal = type(self).__name__, getattr(config, "is_decoder", False)
        if name.endswith("ForCausalLM") and not causal:
            raise InputError("is_decoder: a causal language model needs a causal mask; set it to True")
        if name.endswith("ForMaskedLM") and causal:
            raise InputError("is_decoder: a masked language model is bidirectional; set it to False")
        if name.endswith("ForQuestionAnswering"):
            config.num_labels = 2  # scores of a token: that an answer begins there, and that it ends there
        with _standing_in(*self.encoder):
            super().__init__(config)  # type: ignore[call-arg]  # the family's class comes after
        if not getattr(config, "tie_word_embeddings", True):  # then unused: the output matrix has a bias of its own
            for name, parameter in self.named_parameters():  # type: ignore[attr-defined]
                if name.endswith(("predictions.bias", "lm_head.bias")):
                    parameter.requires_grad_(False)


@contextmanager
def _standing_in(plain: type[Any], fused: type[Any]) -> Iterator[None]:
    """Let the class `fused` have the name of `plain` in the family's module: there a head finds its encoder's class.

    transformers has no argument for it; its own `monkey_patching` does the same in all modules.
    """
    module = sys.modules[plain.__module__]

    def chosen(config: Any, *args: Any, **kwargs: Any) -> Any:  # another thread may build the family's own model
        return (fused if isinstance(config, FusionSettings) else plain)(config, *args, **kwargs)

    with _BUILDING:
        setattr(module, plain.__name__, chosen)
        try:
            yield
        finally:
            setattr(module, plain.__name__, plain)


class PreNormLayer(BertLayer):
    """A BertLayer computed as `x + f(LayerNorm(x))` for self-attention, cross-attention and feed-forward block.

    Pre-norm; weights have BERT's names and shapes. Source: Xiong et al. 2020 (https://arxiv.org/abs/2002.04745), figure
    1b. One more LayerNorm follows the last layer.
    """

    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        encoder_hidden_states: Tensor | None = None,
        encoder_attention_mask: Tensor | None = None,
        past_key_values: Any = None,
        **kwargs: Any,
    ) -> Tensor:
        """Return the layer's hidden states `[B, L, D]`; arguments as in BertLayer."""
        kwargs["past_key_values"] = past_key_values
        hidden = _attended(self.attention, hidden_states, attention_mask=attention_mask, **kwargs)
        if encoder_hidden_states is not None:
            hidden = _attended(
                self.crossattention,
                hidden,
                encoder_hidden_states=encoder_hidden_states,
                attention_mask=encoder_attention_mask,
                **kwargs,
            )
        block = self.output
        return hidden + block.dropout(block.dense(self.intermediate(block.LayerNorm(hidden))))


def _attended(attention: BertAttention, hidden: Tensor, **inputs: Any) -> Tensor:
    block = attention.output
    return hidden + block.dropout(block.dense(attention.self(block.LayerNorm(hidden), **inputs)[0]))


class PreNormEncoder(BertEncoder):
    """A BertEncoder of `PreNormLayer`, with a LayerNorm after the last layer."""

    def __init__(self, plain: Any) -> None:
        """Take the place of a family's encoder of as many layers."""
        nn.Module.__init__(self)
        config = self.config = plain.config
        self.layer = nn.ModuleList([PreNormLayer(config, layer_idx=index) for index in range(config.num_hidden_layers)])
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(self, hidden_states: Tensor, *args: Any, **kwargs: Any) -> Any:
        """Return BertEncoder's output with its last hidden state normalised."""
        output: Any = super().forward(hidden_states, *args, **kwargs)
        output.last_hidden_state = self.LayerNorm(output.last_hidden_state)
        return output


class FusedEncoder:
    """A family's encoder with a fusion in its embedding block, which sees the attention mask, too.

    The mask keeps padding out of the fusion's kernels.
    """

    embeddings: Any
    encoder: Any
    config: Any

    def post_init(self) -> None:
        """Put the fusion into the family's model before its weights are initialised."""
        if not isinstance(self.embeddings, FusedTables):
            self.embeddings = FusedTables(self.config, self.embeddings)
            if self.config.norm == "pre":
                self.encoder = PreNormEncoder(self.encoder)
        super().post_init()  # type: ignore[misc]  # the library's class comes after

    @property
    def caches(self) -> bool:
        """Whether a cache of keys and values may be given: if the fusion reads no neighbouring token.

        Not where positions depend on earlier padding, as in RoBERTa.
        """
        counted = self.embeddings.position_embeddings.padding_idx is None
        return counted and getattr(self.embeddings.fusion, "looks_around", None) is False


def seeing_the_mask(plain: type[Any]) -> Callable[..., Any]:
    """Return the forward pass of an encoder of the family whose encoder is `plain`."""

    @wraps(plain.forward)
    def forward(
        self: Any, input_ids: Tensor | None = None, attention_mask: Tensor | None = None, *args: Any, **kwargs: Any
    ) -> Any:
        past = kwargs.get("past_key_values")
        if past is not None and not self.caches:
            raise InputError("past_key_values: a fusion reads the whole text and keeps no cache; pass the whole text")
        kwargs.pop("use_cache", None)  # only a given cache is used and returned
        cache = {"use_cache": past is not None} if getattr(self.config, "is_decoder", False) else {}
        with self.embeddings.seeing(attention_mask):
            return plain.forward(self, input_ids, attention_mask, *args, **kwargs, **cache)

    return forward
