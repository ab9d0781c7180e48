"""RoBERTa (arXiv:1907.11692) with a choice of fusion, as Hugging Face models.

It differs from BERT in its tables and its classifier. Positions begin after the padding's position, and padding has
none; mostly there is one token type. The classifier is a dense layer over `<s>` in place of the pooler.
"""

from typing import Any

from huggingface_hub.dataclasses import strict
from torch import Tensor
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

from isoscope.models.embeddings import FusionRobertaEmbeddings
from isoscope.models.fused import (
    FusedEncoder,
    FusedHead,
    FusedPreTrained,
    FusionSettings,
    head_classifier,
    head_dropout,
    head_spans,
)
from isoscope.models.generation import FusedGenerationMixin, at_chosen_tokens


@strict
class FusionRobertaConfig(FusionSettings, RobertaConfig):
    """RoBERTa's configuration plus the fusion's (`FusionSettings`)."""

    model_type = "fusion-roberta"


class FusionRobertaPreTrainedModel(FusedPreTrained, RobertaPreTrainedModel):
    """Base class; it initialises the weights."""

    config: FusionRobertaConfig


class FusionRobertaModel(FusedEncoder, FusionRobertaPreTrainedModel, RobertaModel):
    """The encoder. It passes the attention mask to the embeddings too, where a kernel must not see padding."""

    _no_split_modules = ["FusionRobertaEmbeddings", "RobertaLayer"]  # noqa: RUF012 (the library's own declaration)
    parts = FusionRobertaEmbeddings, RobertaEncoder, RobertaPooler


class FusionRobertaForSequenceClassification(
    FusedHead,
    FusionRobertaPreTrainedModel,
    RobertaForSequenceClassification,
    encoder=FusionRobertaModel,
    classifier=RobertaClassificationHead,
):
    """The encoder and RoBERTa's classifier over `<s>`: dropout, dense, tanh, dropout, linear."""


class FusionRobertaForTokenClassification(
    FusedHead,
    FusionRobertaPreTrainedModel,
    RobertaForTokenClassification,
    encoder=FusionRobertaModel,
    dropout=head_dropout,
    classifier=head_classifier,
):
    """The encoder, dropout and a linear classifier over each token."""


class FusionRobertaForQuestionAnswering(
    FusedHead,
    FusionRobertaPreTrainedModel,
    RobertaForQuestionAnswering,
    encoder=FusionRobertaModel,
    qa_outputs=head_spans,
):
    """The encoder and two scores per token: that an answer begins there, and that it ends there."""


@at_chosen_tokens
class FusionRobertaForMaskedLM(
    FusedHead,
    FusionRobertaPreTrainedModel,
    RobertaForMaskedLM,
    encoder=FusionRobertaModel,
    causal=False,
    lm_head=RobertaLMHead,
):
    """The encoder and RoBERTa's masked-LM head, its matrix tied to the word table."""


@at_chosen_tokens
class FusionRobertaForCausalLM(
    FusedGenerationMixin,
    FusedHead,
    FusionRobertaPreTrainedModel,
    RobertaForCausalLM,
    encoder=FusionRobertaModel,
    causal=True,
    lm_head=RobertaLMHead,
):
    """The causal encoder, with causal kernels, and RoBERTa's head, its matrix tied to the word table."""

    def _prepare_position_ids_for_generation(self, inputs_tensor: Tensor, model_kwargs: dict[str, Any]) -> Tensor:
        """Return the positions used in training; `generate` counts from 0, which no RoBERTa has learned."""
        counted: Tensor = super()._prepare_position_ids_for_generation(inputs_tensor, model_kwargs)
        return counted + self.roberta.embeddings.padding_idx + 1
