"""BERT encoders with a choice of fusion; importing this package makes transformers' Auto classes know them."""

from transformers.models.auto.configuration_auto import AutoConfig
from transformers.models.auto.modeling_auto import (
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
)
from transformers.models.auto.tokenization_auto import AutoTokenizer
from transformers.models.bert.tokenization_bert import BertTokenizer

from isoscope.models.bert import (
    FusionBertConfig,
    FusionBertForCausalLM,
    FusionBertForMaskedLM,
    FusionBertForSequenceClassification,
    FusionBertModel,
)

AutoConfig.register(FusionBertConfig.model_type, FusionBertConfig)
AutoModel.register(FusionBertConfig, FusionBertModel)
AutoModelForSequenceClassification.register(FusionBertConfig, FusionBertForSequenceClassification)
AutoModelForMaskedLM.register(FusionBertConfig, FusionBertForMaskedLM)
AutoModelForCausalLM.register(FusionBertConfig, FusionBertForCausalLM)
AutoTokenizer.register(FusionBertConfig, tokenizer_class=BertTokenizer)

__all__ = [
    "FusionBertConfig",
    "FusionBertForCausalLM",
    "FusionBertForMaskedLM",
    "FusionBertForSequenceClassification",
    "FusionBertModel",
]
