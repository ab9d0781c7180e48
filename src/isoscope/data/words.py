"""Words of a text: between spaces and punctuation, or found by ICU's dictionaries in a script without spaces.

The dictionaries are those of icu4py, the extra `segment`. They go by script, not by language.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from typing import NamedTuple

from isoscope.base.errors import InputError
from isoscope.data.scripts import token_pattern, unspaced, word_pattern

EXTRA = "pip install 'isoscope[segment]'"
CHARACTERS = f"single characters: no segmenter is installed ({EXTRA})"


class Bag(NamedTuple):
    """How a bag of words splits a text, and by which segmenter; `by` is None if spaces separate words."""

    split: Callable[[str], list[str]]
    by: str | None


def installed() -> str | None:
    """Return name and version of the segmenter and of its dictionaries; None if it is not installed."""
    try:
        from icu4py import icu_version
    except ImportError:
        return None
    return f"icu4py {version('icu4py')}, ICU {icu_version}"


def segmenter_of(texts: Sequence[str], origin: str) -> str | None:
    """Return the segmenter that texts need, with its version; None if spaces separate their words.

    Raises `InputError`, naming the texts' `origin`, if it is not installed.
    """
    if (language := unspaced(texts)) is None:
        return None
    if (found := installed()) is None:
        raise InputError(
            f"{origin}: {language} without spaces between its words, which a table of words needs; install a segmenter "
            f"({EXTRA}), or put a space between words"
        )
    return found


def words(text: str, *, segmented: bool = False) -> list[tuple[str, int, int]]:
    """Return form (lower case, NFC), first character and end of each word of a text.

    `segmented`: split the letters of scripts without spaces into words; other words are the same.
    """
    spans = [
        span
        for match in word_pattern(segmented).finditer(text)
        for span in (_segments(match) if match.lastgroup else [match.span()])
    ]
    return [(unicodedata.normalize("NFC", text[begin:end].lower()), begin, end) for begin, end in spans]


def _segments(run: re.Match[str]) -> Iterator[tuple[int, int]]:
    from icu4py.breakers import WordBreaker

    end = run.start()
    for part in WordBreaker(run.group(), "root"):  # its own places count UTF-16 units
        begin, end = end, end + len(part)
        if any(map(str.isalnum, part)):
            yield begin, end


def has_words(texts: Sequence[str]) -> bool:
    """Return whether any text has a word: emoji and punctuation have none."""
    return any(map(bag(texts).split, texts))


def bag(*columns: Sequence[str]) -> Bag:
    """Return how to split the texts of some columns, into the words of a word table if a column has no spaces.

    Without the segmenter, texts that mostly have no spaces are split into `CHARACTERS`. One-letter words count ("I",
    the "t" of "don't"), which scikit-learn skips by default.
    """
    every = [text for column in columns for text in column]
    if any(map(unspaced, columns)) and (by := installed()):
        return Bag(lambda text: [form for form, _, _ in words(text, segmented=True)], by)
    return Bag(re.compile(token_pattern(every)).findall, CHARACTERS if unspaced(every) else None)
