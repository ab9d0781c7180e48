"""BERT with a choice of fusion, as Hugging Face models: own config and model type, BERT's own heads."""

from huggingface_hub.dataclasses import strict
from torch import nn
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

from isoscope.errors import InputError
from isoscope.models.embeddings import FusionEmbeddings
from isoscope.models.fused import FusedEncoder, FusionSettings, UncachedGenerationMixin, start_weights


@strict
class FusionBertConfig(FusionSettings, BertConfig):
    """BERT's configuration plus the fusion's (`FusionSettings`)."""

    model_type = "fusion-bert"


class FusionBertPreTrainedModel(BertPreTrainedModel):
    """Base class; `start_weights` initialises the weights."""

    config: FusionBertConfig

    def _init_weights(self, module: nn.Module) -> None:
        start_weights(module, self.config)


class FusionBertModel(FusedEncoder, FusionBertPreTrainedModel, BertModel):
    """The encoder. It passes the attention mask to the embeddings too, where a kernel must not see padding."""

    _no_split_modules = ["FusionEmbeddings", "BertLayer"]  # noqa: RUF012 (the library's own declaration)

    def __init__(self, config: FusionBertConfig, add_pooling_layer: bool = True) -> None:
        BertPreTrainedModel.__init__(self, config)
        self.gradient_checkpointing = False
        self.embeddings = FusionEmbeddings(config)
        self.encoder = BertEncoder(config)
        self.pooler = BertPooler(config) if add_pooling_layer else None
        self.post_init()


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


class FusionBertForTokenClassification(FusionBertPreTrainedModel, BertForTokenClassification):
    """The encoder, dropout and a linear classifier over each token."""

    def __init__(self, config: FusionBertConfig) -> None:
        BertPreTrainedModel.__init__(self, config)
        self.num_labels: int = config.num_labels or 2
        self.bert = FusionBertModel(config, add_pooling_layer=False)
        own = config.classifier_dropout
        self.dropout = nn.Dropout(own if own is not None else config.hidden_dropout_prob)
        self.classifier = nn.Linear(config.hidden_size, self.num_labels)
        self.post_init()


class FusionBertForQuestionAnswering(FusionBertPreTrainedModel, BertForQuestionAnswering):
    """The encoder and two scores per token: that an answer begins there, and that it ends there."""

    def __init__(self, config: FusionBertConfig) -> None:
        BertPreTrainedModel.__init__(self, config)
        self.bert = FusionBertModel(config, add_pooling_layer=False)
        self.qa_outputs = nn.Linear(config.hidden_size, 2)
        self.post_init()


class FusionBertForMaskedLM(FusionBertPreTrainedModel, BertForMaskedLM):
    """The encoder and BERT's masked-LM head, its matrix tied to the word table."""

    def __init__(self, config: FusionBertConfig) -> None:
        BertPreTrainedModel.__init__(self, config)
        if config.is_decoder:
            raise InputError("is_decoder: a masked language model is bidirectional; set it to False")
        self.bert = FusionBertModel(config, add_pooling_layer=False)
        self.cls = BertOnlyMLMHead(config)
        self.post_init()


class FusionBertForCausalLM(UncachedGenerationMixin, FusionBertPreTrainedModel, BertLMHeadModel):
    """The causal encoder, with causal kernels, and BERT's next-token head, its matrix tied to the word table."""

    def __init__(self, config: FusionBertConfig) -> None:
        BertPreTrainedModel.__init__(self, config)
        if not config.is_decoder:
            raise InputError("is_decoder: a causal language model needs a causal mask; set it to True")
        self.bert = FusionBertModel(config, add_pooling_layer=False)
        self.cls = BertOnlyMLMHead(config)
        self.post_init()
