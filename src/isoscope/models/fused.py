"""Shared parts of the fusion encoders of all families: settings, weight initialisation, heads, layers, forward pass."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Unpack

import torch
from torch import Tensor, nn
from transformers import initialization as init
from transformers.modeling_outputs import BaseModelOutputWithPoolingAndCrossAttentions
from transformers.modeling_utils import PreTrainedModel
from transformers.models.bert.modeling_bert import BertAttention, BertEncoder, BertLayer, BertLMPredictionHead
from transformers.models.roberta.modeling_roberta import RobertaLMHead
from transformers.utils.generic import TransformersKwargs, merge_with_config_defaults
from transformers.utils.output_capturing import capture_outputs

from isoscope.base.errors import InputError
from isoscope.models.embeddings import (
    FractionalPositions,
    FusedTables,
    FusionEmbeddings,
    SinusoidalPositions,
    rope_angles,
)


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
    """Initialises the weights of both families' models."""

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
        elif isinstance(module, BertLMPredictionHead | RobertaLMHead):
            init.zeros_(module.bias)
        elif isinstance(module, FusedTables):
            init.copy_(module.position_ids, torch.arange(module.position_ids.shape[-1]).expand((1, -1)))
            init.zeros_(module.token_type_ids)
            held = dict(chain(module.fusion.named_parameters(), module.fusion.named_buffers()))
            fresh = module.fresh_fusion()
            for name, value in chain(fresh.named_parameters(), fresh.named_buffers()):
                init.copy_(held[name], value)


class FusedHead:
    """A model of an encoder and a head, declared by the arguments of its class: `class M(…, dropout=head_dropout)`.

    `encoder`: the encoder's class; `pooled`: with a pooler; `causal`: whether the head needs a causal encoder, None if
    it takes both; `parts`: makers of the head's parts by name, each taking the configuration.
    """

    _declared: tuple[Callable[..., nn.Module], bool, bool | None, Mapping[str, Callable[[Any], nn.Module]]]
    base_model_prefix: str

    def __init_subclass__(
        cls,
        /,  # BERT's language models have a part `cls`
        *,
        encoder: Callable[..., nn.Module] | None = None,
        pooled: bool = False,
        causal: bool | None = None,
        **parts: Callable[[Any], nn.Module],
    ) -> None:
        super().__init_subclass__()
        if encoder is not None:
            cls._declared = encoder, pooled, causal, parts

    def __init__(self, config: Any) -> None:
        """Build the encoder and the head. Raises `InputError` if the head needs another mask."""
        encoder, pooled, causal, parts = self._declared
        if causal and not config.is_decoder:
            raise InputError("is_decoder: a causal language model needs a causal mask; set it to True")
        if causal is False and config.is_decoder:
            raise InputError("is_decoder: a masked language model is bidirectional; set it to False")
        model: Any = self
        PreTrainedModel.__init__(model, config)
        model.num_labels = config.num_labels or 2
        setattr(model, self.base_model_prefix, encoder(config, add_pooling_layer=pooled))
        for name, part in parts.items():
            setattr(model, name, part(config))
        if not getattr(config, "tie_word_embeddings", True):  # then unused: the output matrix has a bias of its own
            for name, parameter in model.named_parameters():
                if name.endswith(("predictions.bias", "lm_head.bias")):
                    parameter.requires_grad_(False)
        model.post_init()


def head_dropout(config: Any) -> nn.Module:
    """Return the dropout before a classifier."""
    return nn.Dropout(config.hidden_dropout_prob if config.classifier_dropout is None else config.classifier_dropout)


def head_classifier(config: Any) -> nn.Module:
    """Return the linear classifier."""
    return nn.Linear(config.hidden_size, config.num_labels or 2)


def head_spans(config: Any) -> nn.Module:
    """Return the two scores of a token: that an answer begins there, and that it ends there."""
    return nn.Linear(config.hidden_size, 2)


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

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.layer = nn.ModuleList([PreNormLayer(config, layer_idx=index) for index in range(config.num_hidden_layers)])
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(self, hidden_states: Tensor, *args: Any, **kwargs: Any) -> Any:
        """Return BertEncoder's output with its last hidden state normalised."""
        output: Any = super().forward(hidden_states, *args, **kwargs)
        output.last_hidden_state = self.LayerNorm(output.last_hidden_state)
        return output


class FusedEncoder:
    """BertModel and RobertaModel with the attention mask passed to the embeddings too.

    The mask keeps padding out of the fusion's kernels.
    """

    parts: tuple[type[nn.Module], type[nn.Module], type[nn.Module]]
    """The family's embeddings, encoder and pooler."""
    embeddings: Any
    encoder: Any
    pooler: Any

    def __init__(self, config: Any, add_pooling_layer: bool = True) -> None:
        model: Any = self
        PreTrainedModel.__init__(model, config)
        self.gradient_checkpointing = False
        embeddings, encoder, pooler = self.parts
        self.embeddings = embeddings(config)
        self.encoder = PreNormEncoder(config) if config.norm == "pre" else encoder(config)
        self.pooler = pooler(config) if add_pooling_layer else None
        model.post_init()

    @property
    def caches(self) -> bool:
        """Whether a cache of keys and values may be given: for BERT, if the fusion reads no neighbouring token."""
        plain = isinstance(self.embeddings, FusionEmbeddings)  # RoBERTa's positions depend on earlier padding
        return plain and getattr(self.embeddings.fusion, "looks_around", None) is False

    @merge_with_config_defaults
    @capture_outputs
    def forward(  # type: ignore[misc]  # as in the library, `position_ids` stands for itself and among the rest
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        encoder_hidden_states: Tensor | None = None,
        encoder_attention_mask: Tensor | None = None,
        past_key_values: Any = None,
        use_cache: bool | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> BaseModelOutputWithPoolingAndCrossAttentions:
        """Run the family's forward pass, with the attention mask passed to the embeddings.

        `use_cache` is accepted, but only a given cache is used and returned. Raises `InputError` for a cache if the
        fusion reads neighbours: it would not see the tokens before this call.
        """
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("pass either input_ids or inputs_embeds")
        if past_key_values is not None and not self.caches:
            raise InputError("past_key_values: a fusion reads the whole text and keeps no cache; pass the whole text")
        past = 0 if past_key_values is None else past_key_values.get_seq_length()
        if past and position_ids is None:
            length = (inputs_embeds if input_ids is None else input_ids).shape[1]  # type: ignore[union-attr]
            position_ids = self.embeddings.position_ids[:, past : past + length]
        fused = self.embeddings(
            input_ids=input_ids,
            token_type_ids=token_type_ids,
            position_ids=position_ids,
            inputs_embeds=inputs_embeds,
            attention_mask=attention_mask,
        )
        self_mask, cross_mask = self._create_attention_masks(  # type: ignore[attr-defined]  # the family's
            attention_mask=attention_mask,
            encoder_attention_mask=encoder_attention_mask,
            embedding_output=fused,
            encoder_hidden_states=encoder_hidden_states,
            past_key_values=past_key_values,
        )
        hidden = self.encoder(
            fused,
            attention_mask=self_mask,
            encoder_hidden_states=encoder_hidden_states,
            encoder_attention_mask=cross_mask,
            past_key_values=past_key_values,
            use_cache=past_key_values is not None,
            position_ids=position_ids,
            **kwargs,
        ).last_hidden_state
        pooled = self.pooler(hidden) if self.pooler is not None else None
        return BaseModelOutputWithPoolingAndCrossAttentions(
            last_hidden_state=hidden, pooler_output=pooled, past_key_values=past_key_values
        )
