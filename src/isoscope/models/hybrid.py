"""A hybrid: an encoder, a linear map of its last hidden state, and the decoder of a translation model.

Importing this module registers it with the Auto classes.
"""

from typing import Any

import numpy as np
import torch
from huggingface_hub.dataclasses import strict
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers.models.auto.configuration_auto import AutoConfig
from transformers.models.auto.modeling_auto import AutoModel, AutoModelForSeq2SeqLM
from transformers.models.auto.tokenization_auto import AutoTokenizer
from transformers.models.bert.tokenization_bert import BertTokenizer

from isoscope.base.errors import InputError
from isoscope.models.families import FusionBertConfig, FusionBertModel
from isoscope.models.translation import FusionBertForTranslation, FusionTranslationConfig

Numbers = NDArray[np.floating[Any]]
TARGET = "target"
"""Folder, in that of a hybrid to start from, of the translation model whose encoder its own replaces."""


@strict
class MappedBertConfig(FusionBertConfig):
    """The configuration of an encoder whose last hidden state is mapped to the width `mapped_size`."""

    model_type = "fusion-bert-mapped"

    mapped_size: int = 768


class MappedBertModel(FusionBertModel):
    """The encoder, and a linear map of its last hidden state; `hidden_states` are those before the map."""

    config: MappedBertConfig

    def __init__(self, config: MappedBertConfig, add_pooling_layer: bool = False) -> None:
        super().__init__(config, add_pooling_layer=add_pooling_layer)
        self.map = nn.Linear(config.hidden_size, config.mapped_size)
        self.post_init()

    # `generate` reads the names of the arguments, and drops those that are not there.
    def forward(self, input_ids: Tensor | None = None, attention_mask: Tensor | None = None, **kwargs: Any) -> Any:
        """Return the encoder's output, its last hidden state mapped, `[B, T, mapped_size]`."""
        output = super().forward(input_ids=input_ids, attention_mask=attention_mask, **kwargs)
        output.last_hidden_state = self.map(output.last_hidden_state)
        return output

    def unmapped(self, input_ids: Tensor, attention_mask: Tensor) -> Any:
        """Return the encoder's output without the map: the last hidden state, `[B, T, hidden_size]`."""
        return super().forward(input_ids=input_ids, attention_mask=attention_mask)


class HybridConfig(FusionTranslationConfig):
    """Configurations of the encoder with its map, and of the decoder."""

    model_type = "fusion-bert-hybrid"


class FusionBertHybrid(FusionBertForTranslation):
    """An encoder with a word table of its own and a linear map, and a decoder; `generate` translates."""

    config_class = HybridConfig
    encoder_class = MappedBertModel
    _tied_weights_keys = {  # noqa: RUF012 (the library's own declaration)
        "decoder.cls.predictions.decoder.weight": "decoder.bert.embeddings.word_embeddings.weight",
        "decoder.cls.predictions.decoder.bias": "decoder.cls.predictions.bias",
    }

    def forward(self, input_ids: Tensor | None = None, attention_mask: Tensor | None = None, **kwargs: Any) -> Any:
        """Return the translation model's output; without a target text, the encoder's."""
        given = {"input_ids": input_ids, "attention_mask": attention_mask, **kwargs}
        if not {"decoder_input_ids", "decoder_inputs_embeds", "labels"} & kwargs.keys():
            return self.encoder(**given)
        return super().forward(**given)


def shorten(encoder: Any, layers: int) -> None:
    """Drop the layers of an encoder after the first `layers`. Raises `InputError` if it has fewer."""
    depth = encoder.config.num_hidden_layers
    if layers > depth:
        raise InputError(f"model.encoder.layer: {layers}, but the encoder has {depth} layers")
    encoder.encoder.layer = encoder.encoder.layer[:layers]
    encoder.config.num_hidden_layers = layers


def hybrid(encoder: Any, translation: Any, weights: Numbers, shift: Numbers) -> FusionBertHybrid:
    """Join an encoder, the map xW + b of its states x, and the decoder of a translation model; all are copied.

    `weights`: W `[d, d']`, from the encoder's width to the decoder's; `shift`: b `[d']`. Raises `InputError` if a part
    is of another architecture, or if the map has another width.
    """
    if type(encoder) is not FusionBertModel:
        raise InputError(f"model.encoder.encoder: {type(encoder).__name__} is not an encoder of the family 'bert'")
    if type(translation) is not FusionBertForTranslation:
        raise InputError(f"model.encoder.decoder: {type(translation).__name__} is no translation model")
    decoder: Any = translation.config.decoder
    widths = encoder.config.hidden_size, decoder.hidden_size
    if weights.shape != widths:
        raise InputError(
            f"model.encoder.map: a map between the widths {weights.shape}, but encoder and decoder have the "
            f"widths {widths}; choose procrustes, ridge or random"
        )
    reads: dict[str, Any] = encoder.config.to_dict() | {
        "model_type": MappedBertConfig.model_type,
        "architectures": None,
        "mapped_size": widths[1],
    }
    # The decoder reads mapped states, so transformers must not add a map of its own.
    writes = decoder.to_dict() | {"cross_attention_hidden_size": widths[0]}
    others: Any = {
        name: getattr(translation.config, name)
        for name in ("pad_token_id", "decoder_start_token_id", "eos_token_id", "tie_word_embeddings")
    }
    joined = FusionBertHybrid(HybridConfig(encoder=reads, decoder=writes, **others))
    with torch.no_grad():
        own = joined.encoder.state_dict()
        copied = {name: value for name, value in encoder.state_dict().items() if name in own}
        copied |= {"map.weight": torch.from_numpy(weights.T), "map.bias": torch.from_numpy(shift)}
        joined.encoder.load_state_dict(copied)
        joined.decoder.load_state_dict(translation.decoder.state_dict())
    return joined.eval()


AutoConfig.register(MappedBertConfig.model_type, MappedBertConfig)
AutoModel.register(MappedBertConfig, MappedBertModel)
AutoConfig.register(HybridConfig.model_type, HybridConfig)
AutoTokenizer.register(HybridConfig, tokenizer_class=BertTokenizer)
for _auto in (AutoModel, AutoModelForSeq2SeqLM):
    _auto.register(HybridConfig, FusionBertHybrid)
