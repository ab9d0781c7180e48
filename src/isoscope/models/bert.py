"""BERT with a choice of fusion, as Hugging Face models: own config and model type, BERT's own heads."""

from huggingface_hub.dataclasses import strict
from transformers.models.bert.configuration_bert import BertConfig
from transformers.models.bert.modeling_bert import (
    BertEncoder,
    BertForMaskedLM,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertLMHeadModel,
    BertModel,
    BertOnlyMLMHead,
    BertPooler,
    BertPreTrainedModel,
)

from isoscope.models.embeddings import FusionEmbeddings
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
class FusionBertConfig(FusionSettings, BertConfig):
    """BERT's configuration plus the fusion's (`FusionSettings`)."""

    model_type = "fusion-bert"


class FusionBertPreTrainedModel(FusedPreTrained, BertPreTrainedModel):
    """Base class; it initialises the weights."""

    config: FusionBertConfig


class FusionBertModel(FusedEncoder, FusionBertPreTrainedModel, BertModel):
    """The encoder. It passes the attention mask to the embeddings too, where a kernel must not see padding."""

    _no_split_modules = ["FusionEmbeddings", "BertLayer"]  # noqa: RUF012 (the library's own declaration)
    parts = FusionEmbeddings, BertEncoder, BertPooler


class FusionBertForSequenceClassification(
    FusedHead,
    FusionBertPreTrainedModel,
    BertForSequenceClassification,
    encoder=FusionBertModel,
    pooled=True,
    dropout=head_dropout,
    classifier=head_classifier,
):
    """The encoder, BERT's pooler over [CLS], dropout and a linear classifier."""


class FusionBertForTokenClassification(
    FusedHead,
    FusionBertPreTrainedModel,
    BertForTokenClassification,
    encoder=FusionBertModel,
    dropout=head_dropout,
    classifier=head_classifier,
):
    """The encoder, dropout and a linear classifier over each token."""


class FusionBertForQuestionAnswering(
    FusedHead, FusionBertPreTrainedModel, BertForQuestionAnswering, encoder=FusionBertModel, qa_outputs=head_spans
):
    """The encoder and two scores per token: that an answer begins there, and that it ends there."""


@at_chosen_tokens
class FusionBertForMaskedLM(
    FusedHead, FusionBertPreTrainedModel, BertForMaskedLM, encoder=FusionBertModel, causal=False, cls=BertOnlyMLMHead
):
    """The encoder and BERT's masked-LM head, its matrix tied to the word table."""


@at_chosen_tokens
class FusionBertForCausalLM(
    FusedGenerationMixin,
    FusedHead,
    FusionBertPreTrainedModel,
    BertLMHeadModel,
    encoder=FusionBertModel,
    causal=True,
    cls=BertOnlyMLMHead,
):
    """The causal encoder, with causal kernels, and BERT's next-token head, its matrix tied to the word table."""
