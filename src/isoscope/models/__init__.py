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

HEADS = {
    "Model": AutoModel,
    "ForSequenceClassification": AutoModelForSequenceClassification,
    "ForTokenClassification": AutoModelForTokenClassification,
    "ForQuestionAnswering": AutoModelForQuestionAnswering,
    "ForMaskedLM": AutoModelForMaskedLM,
    "ForCausalLM": AutoModelForCausalLM,
}
"""End of a class's name → the Auto class that loads it."""
for _family, _tokenizer in (("FusionBert", BertTokenizer), ("FusionRoberta", RobertaTokenizer)):
    _config = globals()[f"{_family}Config"]
    AutoConfig.register(_config.model_type, _config)
    AutoTokenizer.register(_config, tokenizer_class=_tokenizer)
    for _head, _auto in HEADS.items():
        _auto.register(_config, globals()[_family + _head])

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
