"""Shared parts of the fusion encoders of all families: settings, weight initialisation, forward pass, generation."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Unpack

import torch
from torch import Tensor, nn
from transformers import initialization as init
from transformers.generation.configuration_utils import GenerationConfig, GenerationMode
from transformers.generation.utils import GenerationMixin
from transformers.modeling_outputs import BaseModelOutputWithPoolingAndCrossAttentions
from transformers.modeling_utils import PreTrainedModel
from transformers.models.bert.modeling_bert import BertLMPredictionHead
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
from isoscope.models.prenorm import PreNormEncoder


class FusedGenerationMixin(GenerationMixin):
    """The `generate` hooks of a model that writes: no cache where its fusion reads neighbouring tokens.

    Elsewhere there is one if asked for (`use_cache=True`).
    """

    get_input_embeddings: Any

    @property
    def caches(self) -> bool:
        """Whether keys and values of earlier tokens may be kept: each token's embedding depends on the token alone."""
        writes: Any = getattr(self, "decoder", self)
        return bool(writes.base_model.caches)

    def _prepare_cache_for_generation(
        self,
        generation_config: GenerationConfig,
        model_kwargs: dict[str, Any],
        generation_mode: GenerationMode,
        batch_size: int,
        max_cache_length: int,
    ) -> bool:
        """Turn the cache off where a fusion reads neighbours; raise `InputError` for modes that need a cache."""
        if self.caches and generation_config.use_cache:
            library: Any = super()
            asked = generation_config, model_kwargs, generation_mode, batch_size, max_cache_length
            prepared: bool = library._prepare_cache_for_generation(*asked)
            return prepared
        if generation_config.cache_implementation is not None:
            raise InputError("cache_implementation: a fusion reads the whole text and keeps no cache; remove it")
        if generation_mode == GenerationMode.ASSISTED_GENERATION:
            raise InputError("assisted generation: a fusion reads the whole text and keeps no cache; change the mode")
        generation_config.use_cache = False  # on a copy that `generate` makes for each call
        return False

    def prepare_inputs_for_generation(
        self,
        input_ids: Tensor,
        next_sequence_length: int | None = None,
        past_key_values: Any = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        is_first_iteration: bool | None = False,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Return the whole text; after a prompt of embeddings, append the embeddings of the generated tokens."""
        if past_key_values is None and inputs_embeds is not None and not is_first_iteration:
            generated = kwargs["position_ids"].shape[-1] - inputs_embeds.shape[1]
            new = self.get_input_embeddings()(input_ids[:, input_ids.shape[1] - generated :])
            inputs_embeds, is_first_iteration = torch.cat([inputs_embeds, new], 1), True
        library: Any = super()
        prepared: dict[str, Any] = library.prepare_inputs_for_generation(
            input_ids,
            next_sequence_length=next_sequence_length,
            past_key_values=past_key_values,
            attention_mask=attention_mask,
            inputs_embeds=inputs_embeds,
            is_first_iteration=is_first_iteration,
            **kwargs,
        )
        return prepared


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
