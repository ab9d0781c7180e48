"""Generate film reviews whose label needs word order: negation scope, although, but, than, and their nesting.

The grammar (unambiguous, parsed with one token of look-ahead):

    sentence  = inner | inner ", but" inner | inner ", although" inner
    inner     = ("although" | "while") inner "," inner | SUBJECT VERB "that" inner | clause
    clause    = "the" PART COPULA [ADVERB | NEGATION] ADJECTIVE
              | "the" PART COPULA "not" ADJECTIVE "but" ADJECTIVE
              | "the" PART COPULA ADJECTIVE "rather than" ADJECTIVE
              | "the" WORK "was" COMPARATIVE "than the" WORK

The meaning is +1 or -1. "although a, b", "while a, b" and "a, but b" mean b; "a, although b" means a (a and b always
disagree). "Critics doubted that a" means the opposite of a; "critics felt that a" means a. Negation reverses only its
own adjective; "x rather than y" means x, "not x but y" means y. The film is what is judged: "the film was better than
the book" is praise, "the book was better than the film" is not.

`tree` parses a sentence. Trees follow Universal Dependencies (English, version 2):
- The head of a clause is its verb (also "seemed") or, after the copula "was", its adjective. Its dependents are
  subject, object, adverbs and negation.
- The first part is the head of "x but y", "x rather than y" and "a, but b".
- Subordinate clauses ("a, although b", "although a, b", "while a, b", "felt that a") depend on their main clause.
  Conjunctions and commas depend on the clause that they introduce.
- "than the book" depends on the word that it modifies. The full stop depends on the root.
"""

from collections.abc import Callable
from typing import NamedTuple

from isoscope.data.draws import PATIENCE, Draws, SpentError

LABELS = ("negative", "positive")
DESIGN = {"size": 7200, "difficulty": 2, "seed": 0}
"""Settings at which the task was calibrated."""
BANDS: dict[str, object] = {
    "tfidf_unigram_below": 0.65,
    "tfidf_bigram_below": 0.75,
    "additive_between": [0.85, 0.95],
}
"""The calibrated test accuracies."""

PARTS = ("acting", "atmosphere", "cast", "climax", "comedy", "dialogue", "direction", "editing", "ending", "film",
         "humor", "music", "opening", "pacing", "plot", "romance", "scenery", "script", "story", "style")  # fmt: skip
ADJECTIVES = {
    1: ("brilliant", "charming", "clever", "elegant", "fresh", "gripping", "honest", "moving", "superb", "witty"),
    -1: ("awful", "bland", "clumsy", "dull", "hollow", "lazy", "messy", "shallow", "stale", "tedious"),
}
COPULAS = ("was", "seemed")
ADVERBS = ("", "", "truly ", "very ")
NEGATIONS = ("never", "not")
FILMS = ("film", "movie")
OTHERS = ("book", "original", "series")
COMPARATIVES = {1: ("better", "smarter"), -1: ("poorer", "worse")}
SUBJECTS = ("critics", "fans", "viewers")
VERBS = {1: ("agreed", "claimed", "felt"), -1: ("denied", "doubted")}

# Shares such that a bag of words stays near chance, and some word order is learnt early and some late.
CLAUSES = ("plain",) * 6 + ("negated",) * 2 + ("corrected", "preferred", "compared")
NEST = 0.45  # probability of each nesting level up to the difficulty
PAIRED = 0.01  # share of examples paired with the same words in another order and the opposite label
BUT_OR_ALTHOUGH = 0.3  # share of nested sentences joined in the middle
ALTHOUGH = 0.3  # share of these in which the first part determines the label
CONTRAST = 0.8  # share of contrasts where the grammar allows both; the others are reports
TURNED = 0.25  # share of reports that deny
PRAISED = 0.85  # share of comparatives that praise the first noun


class Phrase(NamedTuple):
    """A text, its meaning (+1 praise, -1 blame) and, if any, the same words with the opposite meaning."""

    text: str
    meaning: int
    twin: str | None = None


def group(draws: Draws, difficulty: int, seen: set[str]) -> tuple[str, str]:
    """Return a negative and a positive sentence of equal depth that are not in `seen`; a few pairs share all words.

    The depth is the number of contrasts and reports around the innermost clause. It is binomial: each of `difficulty`
    levels is present with probability `NEST`. Raises `SpentError` if no distinct sentence of a depth is left.
    """
    depth = sum(draws.coin(NEST) for _ in range(difficulty))

    def unseen(text: str | None) -> bool:
        return text is not None and f"{text} ." not in seen

    def one(fits: Callable[[Phrase], bool]) -> Phrase:
        for _ in range(PATIENCE):
            if fits(drawn := _sentence(draws, depth)):
                return drawn
        raise SpentError(f"sentences of depth {depth} after {len(seen)} examples")

    if draws.coin(PAIRED):
        phrase = one(lambda drawn: unseen(drawn.text) and unseen(drawn.twin))
        negative, positive = (phrase.text, phrase.twin)[:: -phrase.meaning]
    else:
        negative = one(lambda drawn: drawn.meaning < 0 and unseen(drawn.text)).text
        positive = one(lambda drawn: drawn.meaning > 0 and unseen(drawn.text)).text
    return f"{negative} .", f"{positive} ."


def _sentence(draws: Draws, depth: int) -> Phrase:
    if depth and draws.coin(BUT_OR_ALTHOUGH):
        first = draws.coin(ALTHOUGH)
        return _contrast(draws, _inner(draws, depth - 1), "{} , although {}" if first else "{} , but {}", depth, first)
    return _inner(draws, depth)


def _inner(draws: Draws, depth: int, *, contrast: bool = True) -> Phrase:
    if depth == 0:
        return _clause(draws, 1 if draws.coin() else -1)
    if contrast and draws.coin(CONTRAST):
        form = draws.pick(("although {} , {}", "while {} , {}"))
        return _contrast(draws, _inner(draws, depth - 1, contrast=False), form, depth, False)
    return _report(draws, _inner(draws, depth - 1))


def _contrast(draws: Draws, deep: Phrase, form: str, depth: int, first: bool) -> Phrase:
    """Join `deep` with a shallow phrase of the opposite meaning, in either order; `first`: the first part counts."""
    if depth > 1 and draws.coin():
        turned = draws.coin(TURNED)
        other = _report(draws, _clause(draws, deep.meaning if turned else -deep.meaning), turned)
    else:
        other = _clause(draws, -deep.meaning)
    a, b = (deep, other) if draws.coin() else (other, deep)
    return Phrase(form.format(a.text, b.text), (a if first else b).meaning, form.format(b.text, a.text))


def _report(draws: Draws, said: Phrase, turned: bool | None = None) -> Phrase:
    turned = draws.coin(TURNED) if turned is None else turned
    head = f"{draws.pick(SUBJECTS)} {draws.pick(VERBS[-1 if turned else 1])} that "
    twin = head + said.twin if said.twin else None
    return Phrase(head + said.text, -said.meaning if turned else said.meaning, twin)


def _clause(draws: Draws, meaning: int) -> Phrase:
    kind = draws.pick(CLAUSES)
    if kind == "compared":
        film, other, praise = draws.pick(FILMS), draws.pick(OTHERS), 1 if draws.coin(PRAISED) else -1
        form = f"the {{}} was {draws.pick(COMPARATIVES[praise])} than the {{}}"
        pair = (film, other)[:: praise * meaning]
    else:
        start = f"the {draws.pick(PARTS)} {draws.pick(COPULAS)} "
        apt, inapt = draws.pick(ADJECTIVES[meaning]), draws.pick(ADJECTIVES[-meaning])
        if kind == "plain":
            return Phrase(f"{start}{draws.pick(ADVERBS)}{apt}", meaning)
        if kind == "negated":
            return Phrase(f"{start}{draws.pick(NEGATIONS)} {inapt}", meaning)
        corrected = kind == "corrected"
        form = start + ("not {} but {}" if corrected else "{} rather than {}")
        pair = (inapt, apt) if corrected else (apt, inapt)
    return Phrase(form.format(*pair), meaning, form.format(*pair[::-1]))


class Tree(NamedTuple):
    """A sentence's words, their tags, and the number (from 1) of each word's head; 0 for the root."""

    tokens: list[str]
    upos: list[str]
    head: list[int]


TAGS = {
    word: tag
    for tag, words in {
        "NOUN": (*PARTS, *FILMS, *OTHERS, *SUBJECTS),
        "ADJ": (*ADJECTIVES[1], *ADJECTIVES[-1], *COMPARATIVES[1], *COMPARATIVES[-1]),
        "VERB": (*VERBS[1], *VERBS[-1], "seemed"),
        "AUX": ("was",),
        "ADV": ("never", "rather", "truly", "very"),
        "PART": ("not",),
        "DET": ("the",),
        "ADP": ("than",),
        "SCONJ": ("although", "that", "while"),
        "CCONJ": ("but",),
        "PUNCT": (",", "."),
    }.items()
    for word in words
}


def tree(sentence: str) -> Tree:
    """Return the tree of a sentence that `group` drew."""
    words = sentence.split()
    heads = [0] * len(words)
    root, end = _verdict_heads(words, heads, 0)
    if words[end] == ",":
        other, last = _verdict_heads(words, heads, end + 2)
        heads[end] = heads[end + 1] = other + 1
        heads[other], end = root + 1, last
    heads[end] = root + 1
    return Tree(words, [TAGS[word] for word in words], heads)


def _verdict_heads(words: list[str], heads: list[int], at: int) -> tuple[int, int]:
    """Set the heads of the part that begins at a word; return the number (from 0) of its own head, and its end."""
    if words[at] in ("although", "while"):
        first, comma = _verdict_heads(words, heads, at + 1)
        second, end = _verdict_heads(words, heads, comma + 1)
        heads[at] = heads[comma] = first + 1
        heads[first] = second + 1
        return second, end
    if words[at] != "the":  # subject, verb, that
        said, end = _verdict_heads(words, heads, at + 3)
        heads[at + 2] = said + 1
        heads[at] = heads[said] = at + 2
        return at + 1, end
    return _clause_heads(words, heads, at)


def _clause_heads(words: list[str], heads: list[int], at: int) -> tuple[int, int]:
    """As `_verdict_heads`, of a clause."""
    subject, verb, adjective = at + 1, at + 2, at + 3
    heads[at] = subject + 1
    if TAGS[words[adjective]] != "ADJ":
        adjective += 1
        heads[adjective - 1] = adjective + 1
    end = adjective + 1
    if words[end] in ("but", "rather", "than"):
        end += 2 if words[end] == "but" else 3
        other = end - 1
        heads[adjective + 1] = other + 1
        heads[other] = adjective + 1
        heads[other - 1] = adjective + 2 if words[adjective + 1] == "rather" else other + 1
    if words[verb] == "was":
        heads[subject] = heads[verb] = adjective + 1
        return adjective, end
    heads[subject] = heads[adjective] = verb + 1
    return verb, end
