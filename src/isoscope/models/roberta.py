"""RoBERTa (arXiv:1907.11692) with a choice of fusion, as Hugging Face models.

It differs from BERT in its tables and its classifier. Positions begin after the padding's position, and padding has
none; mostly there is one token type. The classifier is a dense layer over <s> in place of the pooler.
"""

from typing import Any

from huggingface_hub.dataclasses import strict
from torch import Tensor, nn
from transformers.models.roberta.configuration_roberta import RobertaConfig
from transformers.models.roberta.modeling_roberta import (
    RobertaClassificationHead,
    RobertaEncoder,
    RobertaForCausalLM,
    RobertaForMaskedLM,
    RobertaForQuestionAnswering,
    RobertaForSequenceClassification,
    RobertaForTokenClassification,
    RobertaLMHead,
    RobertaModel,
    RobertaPooler,
    RobertaPreTrainedModel,
)

from isoscope.errors import InputError
from isoscope.models.embeddings import FusionRobertaEmbeddings
from isoscope.models.fused import FusedEncoder, FusionSettings, UncachedGenerationMixin, start_weights


@strict
class FusionRobertaConfig(FusionSettings, RobertaConfig):
    """RoBERTa's configuration plus the fusion's (`FusionSettings`)."""

    model_type = "fusion-roberta"


class FusionRobertaPreTrainedModel(RobertaPreTrainedModel):
    """Base class; `start_weights` initialises the weights."""

    config: FusionRobertaConfig

    def _init_weights(self, module: nn.Module) -> None:
        start_weights(module, self.config)


class FusionRobertaModel(FusedEncoder, FusionRobertaPreTrainedModel, RobertaModel):
    """The encoder. It passes the attention mask to the embeddings too, where a kernel must not see padding."""

    _no_split_modules = ["FusionRobertaEmbeddings", "RobertaLayer"]  # noqa: RUF012 (the library's own declaration)

    def __init__(self, config: FusionRobertaConfig, add_pooling_layer: bool = True) -> None:
        RobertaPreTrainedModel.__init__(self, config)
        self.gradient_checkpointing = False
        self.embeddings = FusionRobertaEmbeddings(config)
        self.encoder = RobertaEncoder(config)
        self.pooler = RobertaPooler(config) if add_pooling_layer else None
        self.post_init()


class FusionRobertaForSequenceClassification(FusionRobertaPreTrainedModel, RobertaForSequenceClassification):
    """The encoder and RoBERTa's classifier over <s>: dropout, dense, tanh, dropout, linear."""

    def __init__(self, config: FusionRobertaConfig) -> None:
        RobertaPreTrainedModel.__init__(self, config)
        self.num_labels: int = config.num_labels or 2
        self.roberta = FusionRobertaModel(config, add_pooling_layer=False)
        self.classifier = RobertaClassificationHead(config)
        self.post_init()


class FusionRobertaForTokenClassification(FusionRobertaPreTrainedModel, RobertaForTokenClassification):
    """The encoder, dropout and a linear classifier over each token."""

    def __init__(self, config: FusionRobertaConfig) -> None:
        RobertaPreTrainedModel.__init__(self, config)
        self.num_labels: int = config.num_labels or 2
        self.roberta = FusionRobertaModel(config, add_pooling_layer=False)
        own = config.classifier_dropout
        self.dropout = nn.Dropout(own if own is not None else config.hidden_dropout_prob)
        self.classifier = nn.Linear(config.hidden_size, self.num_labels)
        self.post_init()


class FusionRobertaForQuestionAnswering(FusionRobertaPreTrainedModel, RobertaForQuestionAnswering):
    """The encoder and two scores per token: that an answer begins there, and that it ends there."""

    def __init__(self, config: FusionRobertaConfig) -> None:
        RobertaPreTrainedModel.__init__(self, config)
        self.roberta = FusionRobertaModel(config, add_pooling_layer=False)
        self.qa_outputs = nn.Linear(config.hidden_size, 2)
        self.post_init()


class FusionRobertaForMaskedLM(FusionRobertaPreTrainedModel, RobertaForMaskedLM):
    """The encoder and RoBERTa's masked-LM head, its matrix tied to the word table."""

    def __init__(self, config: FusionRobertaConfig) -> None:
        RobertaPreTrainedModel.__init__(self, config)
        if config.is_decoder:
            raise InputError("is_decoder: a masked language model is bidirectional; set it to False")
        self.roberta = FusionRobertaModel(config, add_pooling_layer=False)
        self.lm_head = RobertaLMHead(config)
        self.post_init()


class FusionRobertaForCausalLM(UncachedGenerationMixin, FusionRobertaPreTrainedModel, RobertaForCausalLM):
    """The causal encoder, with causal kernels, and RoBERTa's head, its matrix tied to the word table."""

    def __init__(self, config: FusionRobertaConfig) -> None:
        RobertaPreTrainedModel.__init__(self, config)
        if not config.is_decoder:
            raise InputError("is_decoder: a causal language model needs a causal mask; set it to True")
        self.roberta = FusionRobertaModel(config, add_pooling_layer=False)
        self.lm_head = RobertaLMHead(config)
        self.post_init()

    def _prepare_position_ids_for_generation(self, inputs_tensor: Tensor, model_kwargs: dict[str, Any]) -> Tensor:
        """Return the positions used in training; `generate` counts from 0, which no RoBERTa has learned."""
        counted: Tensor = super()._prepare_position_ids_for_generation(inputs_tensor, model_kwargs)
        return counted + self.roberta.embeddings.padding_idx + 1
