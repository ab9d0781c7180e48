"""Check that no text of the project uses a word of the list below, or "one" as a pronoun for a thing or a person.

The check reads docstrings, comments and string literals of Python files, comments of YAML files, and the whole of
pages, scripts and documents.
A failure names file, line, the words found and the plain words to use instead.
"""

import io
import re
import token
import tokenize
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "isoscope"

MANNERISMS = {
    r"so[- ]many[- ]?th|so[- ]manieth": "every n-th",
    r"lest": "so that … not",
    r"(?<!what\x20to\x20)whom": "name who it is",
    r"whoever": "anyone who; the process that",
    r"for want of": "without; because … is missing",
    r"by whose": "with the … of",
    r"as in the source|the source's (?:kernel|product|arms|heat-map|own|figures?|numbers?|tables?|claims?|settings?)": (
        "the paper's name, as in Li 2025 (fusion)"
    ),
    r"after the fact": "post-hoc",
    r"comes? to": "reaches; is; averages",
    r"comes? out": "is the result; is reproduced",
    r"a person gave": "given by the user",
    r"There / This arm|This arm(?=[\"'|<])": "Reference / Arm",
    r"without a word|with no word": "without a message; killed",
    r"broken off": "interrupted",
    r"(?:there|where|here)(?:of|by|in|to|from|upon)": "of it, by which, in which, …",
    r"whence|thence|hence|hither|thither|hitherto|heretofore|henceforth": "from which; therefore; so far",
    r"nought|naught|aught": "nothing; zero",
    r"such (?:a|an) one": "name the thing",
    r"one's": "your; its; the …'s",
    r"held against|hold(?:s|ing)?(?: [\w'-]+){1,5} against": "compared with",
    r"makes? of each other": "say what each does to the other",
    r"goes on": "continues; resumes",
    r"to speak of": "noticeable; or leave it out",
    r"shall": "must; should; will",
    r"unto|upon|amongst|whilst|betwixt": "to, on, among, while, between",
    r"albeit|perchance|nay|ere|oft|thrice|notwithstanding|inasmuch|insofar": "although, perhaps, before, often, …",
    r"as it were|so to speak|if need be": "leave it out",
    r"parted by": "separated by",
    r"anew": "again; from the start",
    r"told apart": "distinguished",
    r"but for": "except for",
    r"works? out|worked out": "compute",
    r"what (?:is|was) (?:\w+ )?looked at|(?:is|are|was|were) looked into|looks into": "analyse; measure",
    r"takes? for|taken for|for living": "treat as; mistake for",
    r"middling": "medium",
    r"struck": "killed; interrupted; injected a fault",
    r"one upon the other": "one after the other",
    # "Of a study without seeds there is nothing"
    r"(?-i:Of) (?:a|an|the|each|every|some|no)\b[^.:;¦]{1,90}?\bthere (?:is|are|was|were)": "subject first",
}
"""Regular expression of a mannerism → the plain words to use instead; the case of letters does not count."""

ENDS = r"(?=\s*[.,;:)'\"]|\s+(?:is|was|has|that|who|which|whose|to|in|at|as|for|from|by|with|and|or|makes?|gives?)\b)"
KINDS = (
    r"the|a|another|other|such|each|(?<!of\x20)which|every|this|that|first|last|very|usual|right|new|old|own|larger|"
    "smaller|least|best|whole|chosen|single|earlier|later|next|built-in|good|real|random"
)
PRONOUN = {
    r"(?<![\w.`_/])(?<!of\x20)(?<!:\x20)ones(?![\w(`])": "repeat the noun",
    rf"(?:{KINDS}) one{ENDS}": "repeat the noun",
    r"(?<!the\x20)one (?:that|who|whose|which)": "a … that; an …, whose",
    r"(?:what|as|if|than|when|how) one (?:is|has|does|would|can|could|may|might|meets|sees|wants|gives|writes)": "you",
}
"""Clear uses of "one" and "ones" for a thing or a person; the number one is not caught."""


class Hit(NamedTuple):
    """A mannerism found: where, in which words, and what to write."""

    place: str
    line: int
    words: str
    plain: str

    def __str__(self) -> str:
        return f"{self.place}:{self.line}: {self.words!r}; write: {self.plain}"


def prose(source: str) -> str:
    """Return the comments and strings of a Python source at their lines, with `¦` for code between them.

    Quotes and `#` become spaces, so that a phrase is found across two lines of a comment or two adjacent strings.
    """
    lines: list[str] = []

    def add(line: int, text: str) -> None:
        first, *rest = text.split("\n")
        while len(lines) < line:
            lines.append("")
        lines[line - 1] += " " + first
        lines.extend(rest)

    strings = {token.STRING} | {getattr(token, name) for name in ("FSTRING_MIDDLE",) if hasattr(token, name)}
    edges = {getattr(token, name) for name in ("FSTRING_START", "FSTRING_END") if hasattr(token, name)}
    blank = {tokenize.NL, token.NEWLINE, token.INDENT, token.DEDENT, token.ENDMARKER} | edges
    for each in tokenize.generate_tokens(io.StringIO(source).readline):
        if each.type == tokenize.COMMENT:
            add(each.start[0], each.string.lstrip("#"))
        elif each.type in strings:
            written = each.string
            if re.match(r"[rR]?[fF]", written):  # one token before Python 3.12: its expressions are code
                written = re.sub(r"\{[^{}\n]*\}", "¦", written)
            add(each.start[0], re.sub(r"^[rbfuRBFU]*(?:\"\"\"|'''|\"|')|(?:\"\"\"|'''|\"|')$", "", written))
        elif each.type not in blank and not (len(lines) == each.start[0] and lines[-1].endswith("¦")):
            add(each.start[0], "¦")
    return "\n".join(lines)


def hits(text: str, place: str, patterns: dict[str, str]) -> list[Hit]:
    """Return every match of the patterns in the text, whatever white space is between their words."""
    found = []
    for pattern, plain in patterns.items():
        spaced = pattern.replace(" ", r"\s+")
        for match in re.finditer(rf"(?<![\w-])(?:{spaced})(?![\w-])", text, re.IGNORECASE):
            line = text.count("\n", 0, match.start()) + 1
            found.append(Hit(place, line, " ".join(match[0].split()), plain))
    return sorted(found)


def remarks(source: str) -> str:
    """Return the comments of a YAML source at their lines, with `¦` for a comment behind code."""
    lines = (re.match(r"(.*?(?:^|\s))#(.*)", line) for line in source.split("\n"))
    return "\n".join("" if found is None else f"{'¦' * bool(found[1].strip())} {found[2]}" for found in lines)


@cache
def read(file: Path) -> str:
    """Return what a person reads of a file."""
    text = file.read_text("utf-8")
    return {".py": prose, ".yaml": remarks}.get(file.suffix, str)(text)


def texts() -> dict[str, list[Path]]:
    """Return the files by room: folders and files of the package, folders of documents, pages of the first level."""
    rooms: dict[str, list[Path]] = {
        "docs": [*ROOT.glob("docs/*.md"), *ROOT.glob("docs/examples/*.py"), *ROOT.glob("docs/pages/*.*")],
        "docs/results": [*ROOT.glob("docs/results/*.md"), *ROOT.glob("docs/results/*.py")],
        "benchmarks": [*ROOT.glob("benchmarks/*.md"), *ROOT.glob("benchmarks/*.py")],
        "variants": sorted(ROOT.glob("variants/**/*.yaml")),
        "profiles": sorted(ROOT.glob("profiles/**/*.yaml")),
    }
    pages = ("README.md", "CONTRIBUTING.md", "DECISIONS.md", "CHANGELOG.md", "params.yaml", "dvc.yaml", "mkdocs.yml")
    rooms |= {name: [ROOT / name] for name in pages}
    for file in sorted(file for suffix in ("py", "html", "js") for file in PACKAGE.rglob(f"*.{suffix}")):
        rooms.setdefault(f"src/{file.relative_to(PACKAGE).parts[0]}", []).append(file)
    return rooms


ROOMS = texts()


@pytest.mark.parametrize("room", ROOMS)
def test_no_mannerism_and_no_one_for_a_thing(room: str) -> None:
    assert ROOMS[room]
    patterns = MANNERISMS | PRONOUN
    found = [hit for file in ROOMS[room] for hit in hits(read(file), str(file.relative_to(ROOT)), patterns)]
    assert not found, "\n".join(map(str, found))


SAMPLE = '''"""Analyse lest it be late.

Every so-many-th batch.
"""
lest = 1
text = "what the arms " f"come {lest} to" "for want" " of it"  # held
# against each other
'''


def test_mannerisms_are_found_in_docstrings_strings_and_comments() -> None:
    """The code itself (`lest = 1`) is no text; a phrase is found across lines and adjacent strings."""
    found = {(hit.line, hit.words) for hit in hits(prose(SAMPLE), "sample.py", MANNERISMS)}
    assert found == {(1, "lest"), (3, "so-many-th"), (6, "for want of"), (6, "held against")}


def test_only_comments_of_yaml_are_read() -> None:
    """A `#` within a value is no comment."""
    text = "# every so-many-th\nlest: a#b whom  # for want\n# of it\n"
    found = {(hit.line, hit.words) for hit in hits(remarks(text), "sample.yaml", MANNERISMS)}
    assert found == {(1, "so-many-th"), (2, "for want of")}


@pytest.mark.parametrize(
    "text, patterns, count",
    [
        ("the one that joined first, another one, larger ones", PRONOUN, 3),
        ("one whose worker died; what one meets", PRONOUN, 2),
        ("one line each; the one string; a column of ones; torch.ones(3); each one line; from one to two", PRONOUN, 0),
        ("fusions of one's own", MANNERISMS, 1),
        ("hello, plainest, there, whose, sources", MANNERISMS, 0),
        ("Of a study without seeds there is nothing.", MANNERISMS, 1),
        ("A study of a bank. There is one arm; of the rest there is a table.", MANNERISMS, 0),
    ],
    ids=["thing", "person", "number", "own", "ordinary", "inverted", "subject first"],
)
def test_patterns(text: str, patterns: dict[str, str], count: int) -> None:
    assert len(hits(text, "sample.md", patterns)) == count
