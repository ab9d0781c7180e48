"""Build language models from scratch: masked, causal, and an encoder-decoder; one kind of layer in three wirings."""

from pathlib import Path
from typing import Any, Literal

import numpy as np

from isoscope.base.errors import InputError
from isoscope.data.special_tokens import Specials
from isoscope.models import families, published
from isoscope.models.build import configuration, seeded
from isoscope.models.encoder import bare, causal, checkpoint_config
from isoscope.models.hybrid import FusionBertHybrid
from isoscope.models.loading import pretrained
from isoscope.models.translation import FusionBertForTranslation, FusionTranslationConfig

Wiring = Literal["masked", "causal", "translation"]
HEADS = {"masked": families.MASKED, "causal": families.CAUSAL}
ENCODER_DECODERS: tuple[Any, ...] = (FusionBertForTranslation, FusionBertHybrid)


def from_scratch(
    wiring: Wiring, *, family: str, layers: int, tied: bool, specials: Specials, seed: int, **encoder: Any
) -> Any:
    """Build a language model with random weights, a function of its arguments alone; `encoder`: see `configuration`.

    `masked`: bidirectional; `causal`: causal mask and kernels; `translation`: half of the `layers` in an encoder, half
    in a causal decoder with cross-attention. `tied`: predictions use the word table. Weights are drawn as in
    `build.from_scratch`. Raises `InputError` for a translation model of another family than BERT, or of an odd number
    of layers.
    """
    shared = {
        "family": family,
        "tie_word_embeddings": tied,
        "pad_id": specials.pad,
        "bos_token_id": specials.begin,
        "eos_token_id": specials.end,
        **encoder,
    }
    if wiring != "translation":
        config = configuration(layers=layers, is_decoder=wiring == "causal", **shared)
        with seeded(seed):
            return families.of(family, HEADS[wiring])(config)
    if family != "bert":
        raise InputError(f"model.encoder.family: {family!r}; a translation model needs 'bert'")
    if layers % 2:
        raise InputError(
            f"model.encoder.layers: {layers} is odd; a translation model has half of the layers in its encoder"
        )
    reads = configuration(layers=layers // 2, **shared)
    writes = configuration(layers=layers // 2, is_decoder=True, add_cross_attention=True, **shared)
    others: Any = {"eos_token_id": specials.end, "tie_word_embeddings": tied}
    both = FusionTranslationConfig(
        encoder=reads.to_dict(),
        decoder=writes.to_dict(),
        pad_token_id=specials.pad,
        decoder_start_token_id=specials.begin,
        **others,
    )
    with seeded(seed):
        return FusionBertForTranslation(both)


def from_checkpoint(wiring: Wiring, folder: Path, **given: Any) -> Any:
    """Load a published language model; `given`: as `published.load`. Raises `InputError` for a translation model."""
    if wiring == "translation":
        raise InputError("model.encoder.kind: 'pretrained'; objective 'translation' trains from scratch: set 'scratch'")
    return published.load(folder, HEADS[wiring], **given)


def from_run(wiring: Wiring, folder: Path) -> Any:
    """Load a language model, with its head, from a checkpoint of a training run.

    Raises `InputError` if its wiring is another, and as `loading.pretrained` does.
    """
    config = checkpoint_config(folder)
    heads = ENCODER_DECODERS
    if wiring != "translation":
        known: Any = families.HEADS[HEADS[wiring]]._model_mapping
        heads = (known[type(config)],) if type(config) in known else ()
    name, *_ = config.architectures or [config.model_type]
    kind = {one.__name__: one for one in heads}.get(name)
    if kind is None:
        raise InputError(f"checkpoint {folder}: {name} is no model of the objective {wiring!r}")
    return pretrained(kind, folder, config)


def check_direction(model: Any, wiring: Wiring) -> None:
    """Raise `InputError` if a model of tokens sees later tokens where it should not, or does not where it should."""
    if wiring != "translation" and causal(bare(model.base_model), np.arange(1, 5, dtype=np.int32)) != (
        wiring == "causal"
    ):
        does = "sees" if wiring == "causal" else "does not see"
        raise InputError(f"objective.kind: {wiring!r}, but {type(model).__name__} {does} later tokens; use another")
