"""An encoder-decoder of two BERTs with a choice of fusion; importing this module registers it with the Auto classes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.utils.rnn import pad_sequence
from transformers.configuration_utils import PreTrainedConfig
from transformers.models.auto.configuration_auto import AutoConfig
from transformers.models.auto.modeling_auto import AutoModel, AutoModelForSeq2SeqLM
from transformers.models.auto.tokenization_auto import AutoTokenizer
from transformers.models.bert.tokenization_bert import BertTokenizer
from transformers.models.encoder_decoder.configuration_encoder_decoder import EncoderDecoderConfig
from transformers.models.encoder_decoder.modeling_encoder_decoder import EncoderDecoderModel

from isoscope.models.families import FusionBertForCausalLM, FusionBertModel
from isoscope.models.generation import FusedGenerationMixin

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


class FusionBertForTranslation(FusedGenerationMixin, EncoderDecoderModel):
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


@torch.inference_mode()
def written(model: Any, read: Sequence[NDArray[np.integer[Any]]], *, beams: int, max_length: int) -> list[list[int]]:
    """Return the tokens that a model in evaluation mode writes for each text `[L]` of token ids that it reads.

    The search has the width `beams` (1: greedy) and ends at `max_length` tokens.
    """
    texts = [torch.from_numpy(one).long() for one in read]
    ids = pad_sequence(texts, batch_first=True, padding_value=model.config.pad_token_id).to(model.device)
    mask = pad_sequence([torch.ones_like(one) for one in texts], batch_first=True).to(model.device)
    options = {"num_beams": beams, "do_sample": False, "max_length": max_length, "use_cache": model.caches}
    found = model.generate(input_ids=ids, attention_mask=mask, **options)
    whole: list[list[int]] = found.tolist()
    return whole


AutoConfig.register(FusionTranslationConfig.model_type, FusionTranslationConfig)
AutoTokenizer.register(FusionTranslationConfig, tokenizer_class=BertTokenizer)
for _auto in (AutoModel, AutoModelForSeq2SeqLM):
    _auto.register(FusionTranslationConfig, FusionBertForTranslation)
