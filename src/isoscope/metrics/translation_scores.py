"""Score translations: corpus BLEU and chrF by sacrebleu with their signatures, and the share of copied sources."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isoscope.base.errors import InputError
from isoscope.base.metric import Metric
from isoscope.metrics.token_counts import METRICS as METRICS

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU

GENERATED = (
    Metric("bleu", "BLEU", better="maximise", low=0.0, high=100.0, digits=2),
    Metric("chrf", "chrF", better="maximise", low=0.0, high=100.0, digits=2),
    Metric("copied", "Share of copied sources", low=0.0, high=1.0),
)


class TranslationScores(NamedTuple):
    """Scores of translations, and what their comparison with other scores needs."""

    bleu: float
    """Corpus BLEU, 0 to 100 (Post 2018, https://arxiv.org/abs/1804.08771)."""
    chrf: float
    """Corpus chrF2, 0 to 100 (Popović 2015, https://aclanthology.org/W15-3049): F2 of character n-grams up to 6."""
    copied: float
    """Share of translations that equal their source."""
    length_ratio: float
    """Tokens of the translations divided by tokens of the references."""
    sentences: int
    signature: str
    """Sacrebleu's description of BLEU's settings: one reference, cased, and its words (`tok:13a`)."""
    chrf_signature: str
    """The same of chrF."""


def bleu(tokenize: str, key: str = "objective.tokenize") -> "BLEU":
    """Return sacrebleu's BLEU with its tokenizer `tokenize`.

    Raises `InputError`, naming `key`, for an unknown name, and if the tokenizer's packages are not installed.
    """
    from sacrebleu.metrics.bleu import BLEU  # the configuration reads this module, and needs no library

    if tokenize not in BLEU.TOKENIZERS:
        raise InputError(f"{key}: expected one of {', '.join(BLEU.TOKENIZERS)}, got {tokenize!r}")
    try:
        return BLEU(tokenize=tokenize)
    except RuntimeError:
        extra = tokenize.partition("-")[0]
        raise InputError(
            f"{key}: BLEU by {tokenize!r} needs more packages; install them (pip install 'sacrebleu[{extra}]'), or set "
            "it to 'char'"
        ) from None


def translation_scores(
    translations: list[str], sources: list[str], references: list[str], *, tokenize: str
) -> TranslationScores:
    """Score translations of a corpus against one reference each; the lists have a text per sentence.

    `tokenize`: sacrebleu's name for the words of BLEU.
    """
    from sacrebleu.metrics.chrf import CHRF

    metric, characters = bleu(tokenize), CHRF()
    found = metric.corpus_score(translations, [references])
    chrf = characters.corpus_score(translations, [references]).score
    copied = sum(map(str.__eq__, translations, sources)) / len(sources)
    ratio = found.sys_len / max(found.ref_len, 1)
    signatures = str(metric.get_signature()), str(characters.get_signature())
    return TranslationScores(found.score, chrf, copied, ratio, len(translations), *signatures)


FEWEST_MATCHES = 10
"""Matched n-grams of each order that the jackknife needs: with few, sacrebleu's smoothing makes BLEU jump."""


def bleu_shares(translations: list[str], references: list[str], *, tokenize: str) -> NDArray[np.float64]:
    """Return each sentence's share of corpus BLEU `[n]`: its jackknife pseudo-value; NaN with too few matches.

    −(n − 1)·BLEU of the corpus without the sentence, shifted so that the shares average to BLEU. Their spread is the
    first-order spread of BLEU over sentences (Efron and Stein 1981).
    """
    metric, n = bleu(tokenize), len(translations)
    pairs = zip(translations, references, strict=True)
    each = [metric.corpus_score([one], [[reference]]) for one, reference in pairs]
    counts = np.array([[*one.counts, *one.totals, one.sys_len, one.ref_len] for one in each], np.int64)
    whole = counts.sum(0)
    if whole[:4].min() < FEWEST_MATCHES:
        return np.full(n, np.nan)
    spread = -(n - 1) * np.array([_bleu(metric, whole - row) for row in counts])
    return spread - spread.mean() + _bleu(metric, whole)


def _bleu(metric: "BLEU", counts: NDArray[np.int64]) -> float:
    """Return BLEU of summed counts: matched and all n-grams of 1 to 4 tokens, tokens of translations and references."""
    matched, every, (length, reference) = (part.tolist() for part in np.split(counts, [4, 8]))
    return float(metric.compute_bleu(matched, every, length, reference, metric.smooth_method).score)
