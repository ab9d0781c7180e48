"""BERT with a choice of fusion, as Hugging Face models: a config and a model type of their own, BERT's own heads."""

from dataclasses import field
from itertools import chain
from typing import Any

import torch
from huggingface_hub.dataclasses import strict
from torch import Tensor, nn
from transformers import initialization as init
from transformers.modeling_outputs import BaseModelOutputWithPoolingAndCrossAttentions
from transformers.models.bert.configuration_bert import BertConfig
from transformers.models.bert.modeling_bert import (
    BertEncoder,
    BertForMaskedLM,
    BertForSequenceClassification,
    BertLMHeadModel,
    BertLMPredictionHead,
    BertModel,
    BertOnlyMLMHead,
    BertPooler,
    BertPreTrainedModel,
)
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import capture_outputs

from isoscope.errors import InputError
from isoscope.models.embeddings import FusionEmbeddings


@strict
class FusionBertConfig(BertConfig):
    """BERT's configuration, the fusion, and the start of the tables apart from that of all other weights.

    `fusion` is `model.fusion` of the configuration; `init_std` the standard deviation of the word, position and
    token-type tables, `initializer_range` that of all other weight matrices. `use_cache` is always False.
    """

    model_type = "fusion-bert"

    fusion: dict[str, Any] = field(default_factory=lambda: {"kind": "additive"})
    init_std: float = 0.02
    use_cache: bool = False

    def __post_init__(self, **kwargs: Any) -> None:
        self.use_cache = False  # a published BERT says True, which only its decoders heed
        super().__post_init__(**kwargs)


class FusionBertPreTrainedModel(BertPreTrainedModel):
    """How each weight starts: said here, so that no library default decides."""

    config: FusionBertConfig

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Start one module; `init` leaves alone what a checkpoint has filled."""
        if getattr(module, "of_fusion", False):
            return  # started with the embeddings, by code of its own
        if isinstance(module, nn.Linear):
            init.normal_(module.weight, std=self.config.initializer_range)
            if module.bias is not None:
                init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            init.normal_(module.weight, std=self.config.init_std)
            if module.padding_idx is not None and not getattr(module.weight, "_is_hf_initialized", False):
                module.weight[module.padding_idx].zero_()
        elif isinstance(module, nn.LayerNorm):
            init.ones_(module.weight)
            init.zeros_(module.bias)
        elif isinstance(module, BertLMPredictionHead):
            init.zeros_(module.bias)
        elif isinstance(module, FusionEmbeddings):
            init.copy_(module.position_ids, torch.arange(module.position_ids.shape[-1]).expand((1, -1)))
            init.zeros_(module.token_type_ids)
            held = dict(chain(module.fusion.named_parameters(), module.fusion.named_buffers()))
            fresh = module.fresh_fusion()
            for name, value in chain(fresh.named_parameters(), fresh.named_buffers()):
                init.copy_(held[name], value)


class FusionBertModel(FusionBertPreTrainedModel, BertModel):
    """The encoder. Its attention mask reaches the embeddings too, where a kernel must not see padding."""

    _no_split_modules = ["FusionEmbeddings", "BertLayer"]  # noqa: RUF012 (the library's own declaration)

    def __init__(self, config: FusionBertConfig, add_pooling_layer: bool = True) -> None:
        BertPreTrainedModel.__init__(self, config)
        self.gradient_checkpointing = False
        self.embeddings = FusionEmbeddings(config)
        self.encoder = BertEncoder(config)
        self.pooler = BertPooler(config) if add_pooling_layer else None
        self.post_init()

    @merge_with_config_defaults
    @capture_outputs
    def forward(
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
        **kwargs: Any,
    ) -> BaseModelOutputWithPoolingAndCrossAttentions:
        """BertModel's, but the embeddings get the attention mask, and a cache is refused (`InputError`)."""
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("pass either input_ids or inputs_embeds")
        if use_cache or past_key_values is not None:
            raise InputError("use_cache: a fusion is computed over the whole text and keeps no cache; set it to False")
        fused = self.embeddings(
            input_ids=input_ids,
            token_type_ids=token_type_ids,
            position_ids=position_ids,
            inputs_embeds=inputs_embeds,
            attention_mask=attention_mask,
        )
        self_mask, cross_mask = self._create_attention_masks(
            attention_mask=attention_mask,
            encoder_attention_mask=encoder_attention_mask,
            embedding_output=fused,
            encoder_hidden_states=encoder_hidden_states,
            past_key_values=None,
        )
        hidden = self.encoder(
            fused,
            attention_mask=self_mask,
            encoder_hidden_states=encoder_hidden_states,
            encoder_attention_mask=cross_mask,
            use_cache=False,
            position_ids=position_ids,
            **kwargs,
        ).last_hidden_state
        pooled = self.pooler(hidden) if self.pooler is not None else None
        return BaseModelOutputWithPoolingAndCrossAttentions(last_hidden_state=hidden, pooler_output=pooled)


class FusionBertForSequenceClassification(FusionBertPreTrainedModel, BertForSequenceClassification):
    """The encoder, BERT's pooler over [CLS], dropout and a linear classifier."""

    def __init__(self, config: FusionBertConfig) -> None:
        BertPreTrainedModel.__init__(self, config)
        self.num_labels: int = config.num_labels or 2
        self.bert = FusionBertModel(config)
        own = config.classifier_dropout
        self.dropout = nn.Dropout(own if own is not None else config.hidden_dropout_prob)
        self.classifier = nn.Linear(config.hidden_size, self.num_labels)
        self.post_init()


class FusionBertForMaskedLM(FusionBertPreTrainedModel, BertForMaskedLM):
    """The encoder and BERT's head for masked tokens, its matrix tied to the word table."""

    def __init__(self, config: FusionBertConfig) -> None:
        BertPreTrainedModel.__init__(self, config)
        if config.is_decoder:
            raise InputError("is_decoder: a masked language model looks both ways; set it to False")
        self.bert = FusionBertModel(config, add_pooling_layer=False)
        self.cls = BertOnlyMLMHead(config)
        self.post_init()


class FusionBertForCausalLM(FusionBertPreTrainedModel, BertLMHeadModel):
    """The encoder looking back only, kernels included, and BERT's head for the next token, tied to the word table."""

    def __init__(self, config: FusionBertConfig) -> None:
        BertPreTrainedModel.__init__(self, config)
        if not config.is_decoder:
            raise InputError("is_decoder: a causal language model looks back only; set it to True")
        self.bert = FusionBertModel(config, add_pooling_layer=False)
        self.cls = BertOnlyMLMHead(config)
        self.post_init()
