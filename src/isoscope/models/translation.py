"""An encoder-decoder of two BERTs with a choice of fusion; importing this module registers it with the Auto classes."""

from typing import Any

from transformers.configuration_utils import PreTrainedConfig
from transformers.models.auto.configuration_auto import AutoConfig
from transformers.models.auto.modeling_auto import AutoModel, AutoModelForSeq2SeqLM
from transformers.models.auto.tokenization_auto import AutoTokenizer
from transformers.models.bert.tokenization_bert import BertTokenizer
from transformers.models.encoder_decoder.configuration_encoder_decoder import EncoderDecoderConfig
from transformers.models.encoder_decoder.modeling_encoder_decoder import EncoderDecoderModel

from isoscope.models.bert import FusionBertForCausalLM, FusionBertModel
from isoscope.models.fused import UncachedGenerationMixin

_WORDS = "encoder.embeddings.word_embeddings.weight"


class FusionTranslationConfig(EncoderDecoderConfig):
    """Configurations of the encoder and of the decoder, which has a causal mask and cross-attention."""

    model_type = "fusion-bert-translation"

    @property
    def num_hidden_layers(self) -> int:
        """Layers of the encoder: those of the hidden states that are read from a translation model."""
        return int(self.encoder.num_hidden_layers)  # type: ignore[union-attr]

    @property
    def vocab_size(self) -> int:
        """Rows of the word table."""
        return int(self.decoder.vocab_size)  # type: ignore[union-attr]

    @property
    def hidden_size(self) -> int:
        """Width of a hidden state."""
        return int(self.encoder.hidden_size)  # type: ignore[union-attr]

    @property
    def max_position_embeddings(self) -> int:
        """Rows of a position table."""
        return int(self.encoder.max_position_embeddings)  # type: ignore[union-attr]


class FusionBertForTranslation(UncachedGenerationMixin, EncoderDecoderModel):
    """Encoder, and decoder with cross-attention and BERT's next-token head; `generate` translates.

    If `tie_word_embeddings`, one word table serves the encoder, the decoder and the predictions; else each has its own.
    """

    config_class = FusionTranslationConfig
    config: FusionTranslationConfig
    encoder_class: type[FusionBertModel] = FusionBertModel
    _tied_weights_keys = {  # noqa: RUF012 (the library's own declaration)
        "decoder.bert.embeddings.word_embeddings.weight": _WORDS,
        "decoder.cls.predictions.decoder.weight": _WORDS,
        "decoder.cls.predictions.decoder.bias": "decoder.cls.predictions.bias",
    }

    def __init__(self, config: PreTrainedConfig) -> None:
        parts: Any = config
        encoder = self.encoder_class(parts.encoder, add_pooling_layer=False)
        super().__init__(parts, encoder, FusionBertForCausalLM(parts.decoder))


AutoConfig.register(FusionTranslationConfig.model_type, FusionTranslationConfig)
AutoTokenizer.register(FusionTranslationConfig, tokenizer_class=BertTokenizer)
for _auto in (AutoModel, AutoModelForSeq2SeqLM):
    _auto.register(FusionTranslationConfig, FusionBertForTranslation)
