"""RoBERTa (arXiv:1907.11692) with a choice of fusion, as Hugging Face models.

It differs from BERT in its tables (positions begin behind the padding's, padding has none; mostly one token type) and
in its classifier, a dense layer of its own over <s> in place of the pooler.
"""

from huggingface_hub.dataclasses import strict
from torch import nn
from transformers.models.roberta.configuration_roberta import RobertaConfig
from transformers.models.roberta.modeling_roberta import (
    RobertaClassificationHead,
    RobertaEncoder,
    RobertaForSequenceClassification,
    RobertaModel,
    RobertaPooler,
    RobertaPreTrainedModel,
)

from isoscope.models.embeddings import FusionRobertaEmbeddings
from isoscope.models.fused import FusedEncoder, FusionSettings, start_weights


@strict
class FusionRobertaConfig(FusionSettings, RobertaConfig):
    """RoBERTa's configuration and a fusion's (`FusionSettings`)."""

    model_type = "fusion-roberta"


class FusionRobertaPreTrainedModel(RobertaPreTrainedModel):
    """How each weight starts: said in `start_weights`."""

    config: FusionRobertaConfig

    def _init_weights(self, module: nn.Module) -> None:
        start_weights(module, self.config)


class FusionRobertaModel(FusedEncoder, FusionRobertaPreTrainedModel, RobertaModel):
    """The encoder. Its attention mask reaches the embeddings too, where a kernel must not see padding."""

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
