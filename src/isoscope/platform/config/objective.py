"""The section `objective`: what a model is trained for."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from isoscope.platform.config.base import Conflicts, Count, Direction, Section, Share


class Classification(Section):
    """Classification of a sentence or pair, trained with cross-entropy."""

    kind: Literal["classification"]


class Language(Section):
    """A language model, trained from scratch with cross-entropy; its loss is in nats per predicted token."""

    tied: bool
    """Predict with the word table as the output matrix; false: with a matrix of its own, and a translation model with a
    word table per stack.
    """


class Sided(Language):
    """A language model of one side of a task."""

    side: Literal["source", "target"]
    """Side of a task of pairs: sentence1 or sentence2. A task of single sentences has one side under both names."""


class Masked(Sided):
    """Masked language modelling (MLM): predict chosen tokens, mostly replaced by [MASK], from both sides."""

    kind: Literal["masked"]
    rate: Share
    """Share of a sentence's tokens to predict; at least one token."""
    masked: Annotated[float, Field(ge=0, le=1)]
    """Share of these that are replaced by [MASK]."""
    random: Annotated[float, Field(ge=0, le=1)]
    """Share of these that are replaced by a random token; the others stay as they are."""

    def _conflicts(self) -> Conflicts:
        total = self.masked + self.random
        yield total > 1 + 1e-9, f"masked {self.masked} and random {self.random} add up to more than 1"


class Causal(Sided):
    """Causal language modelling (CLM): predict each token from those before it."""

    kind: Literal["causal"]
    share: Share
    """Share of a sentence's tokens whose prediction counts, drawn at random; 1: all of them."""


class Translation(Language):
    """Translation from the source to the target side of a task of pairs, by an encoder-decoder."""

    kind: Literal["translation"]
    beams: Count
    """Width of the beam search for translations of the test split; 1: greedy."""
    sentences: Count | None
    """Test sentences to translate for BLEU; null: all."""
    tokenize: Literal["13a", "intl", "zh", "ja-mecab", "ko-mecab", "char", "none"] | None = None
    """Words of BLEU, as sacrebleu names them; null: by the script of the task's target side (zh for Chinese, ja-mecab,
    ko-mecab, char for Thai, Lao, Khmer and Burmese, else 13a).
    """


class Alignment(Section):
    """A hybrid's encoder learns to give the states of the decoder's own encoder; needs `encoder.kind: hybrid`."""

    kind: Literal["alignment"]
    anchor: Annotated[float, Field(ge=0, le=1000)]
    """Weight of the squared distance from the states that it started with."""


OBJECTIVES = (Classification, Masked, Causal, Translation, Alignment)
Built = Classification | Masked | Causal | Translation | Alignment
"""Options of a built-in objective."""
_LANGUAGE: Mapping[str, Direction] = {"loss": "minimise", "accuracy": "maximise"}
METRICS: Mapping[str, Mapping[str, Direction]] = {
    "classification": {"loss": "minimise", "accuracy": "maximise", "f1": "maximise", "matthews": "maximise"},
    **dict.fromkeys(("masked", "causal", "translation"), _LANGUAGE),
    "alignment": {"loss": "minimise", "error": "minimise", "moved": "minimise"},
}
"""Metrics of each built-in objective with their better direction; those of a plugin are known when it is built."""
GENERATED: Mapping[str, Mapping[str, Direction]] = {"translation": {"bleu": "maximise", "chrf": "maximise"}}
"""Metrics of generated text, which only the test split has."""
