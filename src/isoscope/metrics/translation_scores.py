"""Score translations: corpus BLEU and chrF by sacrebleu with their signatures, and the share of copied sources."""

from typing import NamedTuple

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF


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
    """Sacrebleu's description of BLEU's settings: one reference, cased, tokenised by 13a."""
    chrf_signature: str
    """The same of chrF."""


def translation_scores(translations: list[str], sources: list[str], references: list[str]) -> TranslationScores:
    """Score translations of a corpus against one reference each; the lists have a text per sentence."""
    metric, characters = BLEU(), CHRF()
    found = metric.corpus_score(translations, [references])
    chrf = characters.corpus_score(translations, [references]).score
    copied = sum(map(str.__eq__, translations, sources)) / len(sources)
    ratio = found.sys_len / max(found.ref_len, 1)
    signatures = str(metric.get_signature()), str(characters.get_signature())
    return TranslationScores(found.score, chrf, copied, ratio, len(translations), *signatures)
