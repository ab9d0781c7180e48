"""BERT and RoBERTa with a choice of fusion; importing this package registers them with transformers' Auto classes."""

from transformers.models.auto.configuration_auto import AutoConfig
from transformers.models.auto.modeling_auto import (
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
)
from transformers.models.auto.tokenization_auto import AutoTokenizer
from transformers.models.bert.tokenization_bert import BertTokenizer
from transformers.models.roberta.tokenization_roberta import RobertaTokenizer

from isoscope.models.bert import (
    FusionBertConfig,
    FusionBertForCausalLM,
    FusionBertForMaskedLM,
    FusionBertForQuestionAnswering,
    FusionBertForSequenceClassification,
    FusionBertForTokenClassification,
    FusionBertModel,
)
from isoscope.models.roberta import (
    FusionRobertaConfig,
    FusionRobertaForCausalLM,
    FusionRobertaForMaskedLM,
    FusionRobertaForQuestionAnswering,
    FusionRobertaForSequenceClassification,
    FusionRobertaForTokenClassification,
    FusionRobertaModel,
)

AutoConfig.register(FusionBertConfig.model_type, FusionBertConfig)
AutoModel.register(FusionBertConfig, FusionBertModel)
AutoModelForSequenceClassification.register(FusionBertConfig, FusionBertForSequenceClassification)
AutoModelForTokenClassification.register(FusionBertConfig, FusionBertForTokenClassification)
AutoModelForQuestionAnswering.register(FusionBertConfig, FusionBertForQuestionAnswering)
AutoModelForMaskedLM.register(FusionBertConfig, FusionBertForMaskedLM)
AutoModelForCausalLM.register(FusionBertConfig, FusionBertForCausalLM)
AutoTokenizer.register(FusionBertConfig, tokenizer_class=BertTokenizer)

AutoConfig.register(FusionRobertaConfig.model_type, FusionRobertaConfig)
AutoModel.register(FusionRobertaConfig, FusionRobertaModel)
AutoModelForSequenceClassification.register(FusionRobertaConfig, FusionRobertaForSequenceClassification)
AutoModelForTokenClassification.register(FusionRobertaConfig, FusionRobertaForTokenClassification)
AutoModelForQuestionAnswering.register(FusionRobertaConfig, FusionRobertaForQuestionAnswering)
AutoModelForMaskedLM.register(FusionRobertaConfig, FusionRobertaForMaskedLM)
AutoModelForCausalLM.register(FusionRobertaConfig, FusionRobertaForCausalLM)
AutoTokenizer.register(FusionRobertaConfig, tokenizer_class=RobertaTokenizer)

__all__ = [
    "FusionBertConfig",
    "FusionBertForCausalLM",
    "FusionBertForMaskedLM",
    "FusionBertForQuestionAnswering",
    "FusionBertForSequenceClassification",
    "FusionBertForTokenClassification",
    "FusionBertModel",
    "FusionRobertaConfig",
    "FusionRobertaForCausalLM",
    "FusionRobertaForMaskedLM",
    "FusionRobertaForQuestionAnswering",
    "FusionRobertaForSequenceClassification",
    "FusionRobertaForTokenClassification",
    "FusionRobertaModel",
]
