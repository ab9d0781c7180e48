"""Score translations: corpus BLEU by sacrebleu with its signature, and the share of copied sources."""

from typing import NamedTuple

from sacrebleu.metrics.bleu import BLEU


class TranslationScores(NamedTuple):
    """Scores of translations, and what their comparison with other scores needs."""

    bleu: float
    """Corpus BLEU, 0 to 100 (Post 2018, https://arxiv.org/abs/1804.08771)."""
    copied: float
    """Share of translations that equal their source."""
    length_ratio: float
    """Tokens of the translations divided by tokens of the references."""
    sentences: int
    signature: str
    """Sacrebleu's description of the settings: one reference, cased, tokenised by 13a."""


def translation_scores(translations: list[str], sources: list[str], references: list[str]) -> TranslationScores:
    """Score translations of a corpus against one reference each; the lists have a text per sentence."""
    metric = BLEU()
    found = metric.corpus_score(translations, [references])
    copied = sum(map(str.__eq__, translations, sources)) / len(sources)
    ratio = found.sys_len / max(found.ref_len, 1)
    return TranslationScores(found.score, copied, ratio, len(translations), str(metric.get_signature()))
