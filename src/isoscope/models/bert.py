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
    FusedPreTrained,
    FusionSettings,
    UncachedGenerationMixin,
    head_classifier,
    head_dropout,
    head_spans,
)


@strict
class FusionBertConfig(FusionSettings, BertConfig):
    """BERT's configuration plus the fusion's (`FusionSettings`)."""

    model_type = "fusion-bert"


class FusionBertPreTrainedModel(FusedPreTrained, BertPreTrainedModel):
    """Base class; `start_weights` initialises the weights."""

    config: FusionBertConfig


class FusionBertModel(FusedEncoder, FusionBertPreTrainedModel, BertModel):
    """The encoder. It passes the attention mask to the embeddings too, where a kernel must not see padding."""

    _no_split_modules = ["FusionEmbeddings", "BertLayer"]  # noqa: RUF012 (the library's own declaration)
    parts = FusionEmbeddings, BertEncoder, BertPooler


class FusionBertForSequenceClassification(FusionBertPreTrainedModel, BertForSequenceClassification):
    """The encoder, BERT's pooler over [CLS], dropout and a linear classifier."""

    def __init__(self, config: FusionBertConfig) -> None:
        self.assemble(config, FusionBertModel, pooled=True, dropout=head_dropout, classifier=head_classifier)


class FusionBertForTokenClassification(FusionBertPreTrainedModel, BertForTokenClassification):
    """The encoder, dropout and a linear classifier over each token."""

    def __init__(self, config: FusionBertConfig) -> None:
        self.assemble(config, FusionBertModel, dropout=head_dropout, classifier=head_classifier)


class FusionBertForQuestionAnswering(FusionBertPreTrainedModel, BertForQuestionAnswering):
    """The encoder and two scores per token: that an answer begins there, and that it ends there."""

    def __init__(self, config: FusionBertConfig) -> None:
        self.assemble(config, FusionBertModel, qa_outputs=head_spans)


class FusionBertForMaskedLM(FusionBertPreTrainedModel, BertForMaskedLM):
    """The encoder and BERT's masked-LM head, its matrix tied to the word table."""

    def __init__(self, config: FusionBertConfig) -> None:
        self.assemble(config, FusionBertModel, causal=False, cls=BertOnlyMLMHead)


class FusionBertForCausalLM(UncachedGenerationMixin, FusionBertPreTrainedModel, BertLMHeadModel):
    """The causal encoder, with causal kernels, and BERT's next-token head, its matrix tied to the word table."""

    def __init__(self, config: FusionBertConfig) -> None:
        self.assemble(config, FusionBertModel, causal=True, cls=BertOnlyMLMHead)
