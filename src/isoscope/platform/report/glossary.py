"""Keep only the terms of a page's glossary that the page uses."""

import re
from html import unescape
from unicodedata import normalize

ENTRY = re.compile(r"<dt>([^<]*)</dt><dd>.*?</dd>\n?", re.DOTALL)
LIST = re.compile(r'<dl class="words">.*?</dl>', re.DOTALL)
PLURAL = re.compile(r"(?:(?<=s)es|ies|y|(?<!s)s)$")
UNREAD = re.compile(r"<(script|style)\b.*?</\1>|<[^>]+>", re.DOTALL)


def with_used_terms(html: str) -> str:
    """Return a page without the entries of its lists of words (`<dl class="words">`) that the rest never says.

    An entry explains one or more terms, with commas between them; it stays if one of them occurs, in the singular or
    plural, in any case, with a subscript as ₁ or _1, also across lines and tags.
    """
    rest = _plain(UNREAD.sub(" ", LIST.sub(" ", html)))

    def used(entry: re.Match[str]) -> str:
        names = [re.escape(PLURAL.sub("", name)) for name in _plain(entry[1]).split(", ")]
        pattern = rf"(?<!\w)({'|'.join(names)})({PLURAL.pattern.removesuffix('$')})?(?!\w)"
        return entry[0] if re.search(pattern, rest, re.IGNORECASE) else ""

    return LIST.sub(lambda words: ENTRY.sub(used, words[0]), html)


def _plain(text: str) -> str:
    return re.sub(r"_(?=\d)", "", " ".join(normalize("NFKC", unescape(text)).split()))
