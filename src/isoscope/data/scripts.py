"""Writing systems: which characters make a word, and which languages are written without spaces between words."""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from itertools import chain
from random import Random

JOINERS = "\u200c\u200d"
"""Zero-width non-joiner and joiner: inside words of Persian, Hindi and others."""
LANGUAGES = {
    "CJK": "Chinese",
    "IDEOGRAPHIC": "Chinese",
    "BOPOMOFO": "Chinese",
    "HIRAGANA": "Japanese",
    "KATAKANA": "Japanese",
    "KATAKANA-HIRAGANA": "Japanese",
    "HALFWIDTH": "Japanese",
    "HANGUL": "Korean",
    "THAI": "Thai",
    "LAO": "Lao",
    "KHMER": "Khmer",
    "MYANMAR": "Burmese",
}
"""First word of a letter's Unicode name → language whose script it is; others are written with spaces."""
SPACED = "Korean"
WORDS = {
    "Chinese": "zh",
    "Japanese": "ja-mecab",
    "Korean": "ko-mecab",
    **dict.fromkeys(("Thai", "Lao", "Khmer", "Burmese"), "char"),
}
"""Language → sacrebleu's tokenizer for it. Without one of its own, of text without spaces: characters."""
OTHER_WORDS = "13a"
"""Sacrebleu's tokenizer for all other languages."""
SAMPLE = 1000
"""Texts, drawn with a fixed seed, that tell the language of all."""
KANA = 0.1
"""Share of kana among East Asian letters from which a text is Japanese; Chinese has none."""
SOUND_MARKS = "\u3099\u309a"
SIGNS = 0.01
"""Marks per letter above which marks are vowel signs."""
SPACES = 0.1
"""Spaces per letter, below which words are not separated: words have fewer than ten letters, phrases more."""


@cache
def marks() -> str:
    r"""Return the characters that continue a word although `\w` excludes them, as ranges of a regular expression.

    Category M (vowel signs, accents) and `JOINERS`.
    """
    return _ranges(continues, range(0x300, 0x20000), range(0xE0100, 0xE01F0))


@cache
def _unspaced_letters() -> str:
    """Return the letters and digits of scripts without spaces, as ranges of a regular expression."""
    return _ranges(lambda letter: letter.isalnum() and _of(letter) not in ("", SPACED), range(0xE00, 0x33480))


def _ranges(within: Callable[[str], bool], *codes: range) -> str:
    found = [code for code in chain(*codes) if within(chr(code))]
    starts = [code for code in found if not within(chr(code - 1))]
    ends = [code for code in found if not within(chr(code + 1))]
    return "".join(rf"\U{start:08x}-\U{end:08x}" for start, end in zip(starts, ends, strict=True))


def continues(character: str) -> bool:
    """Return whether a character continues a word: a mark or a joiner."""
    return bool(character) and (character in JOINERS or unicodedata.category(character).startswith("M"))


@cache
def word_pattern(segmented: bool = False) -> re.Pattern[str]:
    """Return the pattern of a word: letters and digits with their marks, apostrophes and hyphens inside.

    Punctuation is no part of any word. `segmented`: letters of scripts without spaces are a group `run` of their own,
    which may hold several words.
    """
    apart = _unspaced_letters() if segmented else ""
    part = rf"[^\W_{apart}]+(?:[{marks()}]+[^\W_{apart}]*)*"
    word = rf"{part}(?:['’-]{part})*"
    return re.compile(rf"(?P<run>[{apart}][{apart}{marks()}]*)|{word}" if segmented else word)


def token_pattern(texts: Sequence[str]) -> str:
    r"""Return the pattern of a bag of words' pieces: runs of `\w` with their marks, one-letter words included.

    In texts without spaces between words: single letters with their marks.
    """
    return rf"\w[{marks()}]*" if unspaced(texts) else rf"\w+(?:[{marks()}]+\w*)*"


def without_marks(text: str, end: int, start: int = 0) -> int:
    """Return the end of `text[start:end]` without the marks at its end."""
    while end > start and continues(text[end - 1]):
        end -= 1
    return end


def language(texts: Sequence[str]) -> str | None:
    """Return the language of more than half of the letters, if its script tells; None for all others."""
    letters = Counter(
        name for text in _sample(texts) for character in text if character.isalpha() for name in [_of(character)]
    )
    total, kana = letters.total(), letters["Japanese"]
    if kana and kana >= KANA * (kana + letters["Chinese"]):
        letters["Japanese"] += letters.pop("Chinese", 0)
    return next((name for name, count in letters.items() if name and 2 * count > total), None)


def words_of_bleu(language: str | None) -> str:
    """Return sacrebleu's tokenizer for a language; None: any other."""
    return WORDS.get(language or "", OTHER_WORDS)


@cache
def _of(letter: str) -> str:
    return LANGUAGES.get(unicodedata.name(letter, "").partition(" ")[0], "")


def has_vowel_signs(texts: Sequence[str]) -> bool:
    """Return whether marks are letters of the script, as vowel signs are, and not only accents (which NFC composes).

    The sound marks of Japanese, which NFC composes too, make other letters: が and か.
    """
    sample = unicodedata.normalize("NFC", "".join(_sample(texts)))
    marked = sum(map(continues, sample)) + sum(map(unicodedata.normalize("NFD", sample).count, SOUND_MARKS))
    return marked > SIGNS * sum(map(str.isalpha, sample))


def unspaced(texts: Sequence[str]) -> str | None:
    """Return the language of texts whose words are not separated by spaces; None if they are."""
    found = language(texts)
    if found is None or found == SPACED:
        return None
    sample = "\n".join(_sample(texts))
    letters = [character.isalpha() and _of(character) != "" for character in sample]
    between = sum(
        letters[without_marks(sample, place.start()) - 1] and letters[place.end() % len(letters)]
        for place in re.finditer(r"[^\S\n]+", sample)
    )
    return found if between < SPACES * sum(letters) else None


def glued(texts: Sequence[str]) -> bool:
    """Return whether a quarter of the texts or more have no spaces between their words, as in pairs of languages."""
    every = _sample(texts)
    own = [text for text in every if language([text]) not in (None, SPACED)]
    return 4 * len(own) >= len(every) and unspaced(own) is not None


def _sample(texts: Sequence[str]) -> Sequence[str]:
    # No step: the texts of pairs stand in turn.
    return texts if len(texts) <= SAMPLE else Random(0).sample(texts, SAMPLE)
