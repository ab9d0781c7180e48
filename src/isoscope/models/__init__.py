"""BERT and RoBERTa with a choice of fusion; importing this package registers them with transformers' Auto classes.

The encoder-decoder is in `isoscope.models.translation`, which registers it: a change there concerns no other model.
"""

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

_AUTO = (
    AutoModel,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoModelForQuestionAnswering,
    AutoModelForMaskedLM,
    AutoModelForCausalLM,
)
_BERT = (
    FusionBertModel,
    FusionBertForSequenceClassification,
    FusionBertForTokenClassification,
    FusionBertForQuestionAnswering,
    FusionBertForMaskedLM,
    FusionBertForCausalLM,
)
_ROBERTA = (
    FusionRobertaModel,
    FusionRobertaForSequenceClassification,
    FusionRobertaForTokenClassification,
    FusionRobertaForQuestionAnswering,
    FusionRobertaForMaskedLM,
    FusionRobertaForCausalLM,
)
for _config, _tokenizer, _models in (
    (FusionBertConfig, BertTokenizer, _BERT),
    (FusionRobertaConfig, RobertaTokenizer, _ROBERTA),
):
    AutoConfig.register(_config.model_type, _config)
    AutoTokenizer.register(_config, tokenizer_class=_tokenizer)
    for _auto, _model in zip(_AUTO, _models, strict=True):
        _auto.register(_config, _model)

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
