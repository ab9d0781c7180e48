"""Parse a generated sentence to words, universal POS tags and heads, with one word of look-ahead.

Trees follow Universal Dependencies (English, version 2):
- The head of a clause is its verb (also "seemed") or, after the copula "was", its adjective. Its dependents are
  subject, object, adverbs and negation.
- The first part is the head of "x but y", "x rather than y" and "a, but b".
- Subordinate clauses ("a, although b", "although a, b", "while a, b", "felt that a") depend on their main clause.
  Conjunctions and commas depend on the clause that they introduce.
- "than the book" depends on the word that it modifies. The full stop depends on the root.
"""

from typing import NamedTuple


class Tree(NamedTuple):
    """A sentence's words, their tags, and the number (from 1) of each word's head; 0 for the root."""

    tokens: list[str]
    upos: list[str]
    head: list[int]


def sentiment(sentence: str) -> Tree:
    """Return the tree of a sentence of `embedded_sentiment`."""
    reader = _Reader(sentence)
    root = reader.verdict()
    if reader.next == ",":
        comma, joins = reader.take("PUNCT"), reader.take("CCONJ" if reader.next == "but" else "SCONJ")
        other = reader.verdict()
        reader.below(other, comma, joins)
        reader.below(root, other)
    return reader.tree(root)


class _Reader:
    """Recursive-descent parser; each rule returns the number (from 0) of its head."""

    def __init__(self, sentence: str) -> None:
        self.tokens = sentence.split()
        self.tags: list[str] = []
        self.heads = [0] * len(self.tokens)

    @property
    def next(self) -> str:
        return self.tokens[len(self.tags)]

    def take(self, tag: str) -> int:
        self.tags.append(tag)
        return len(self.tags) - 1

    def below(self, head: int, *words: int) -> None:
        for word in words:
            self.heads[word] = head + 1

    def tree(self, root: int) -> Tree:
        self.below(root, self.take("PUNCT"))
        return Tree(self.tokens, self.tags, self.heads)

    def noun(self) -> int:
        the, noun = self.take("DET"), self.take("NOUN")
        self.below(noun, the)
        return noun

    def verdict(self) -> int:
        if self.next in ("although", "while"):
            mark, first, comma = self.take("SCONJ"), self.verdict(), self.take("PUNCT")
            second = self.verdict()
            self.below(first, mark, comma)
            self.below(second, first)
            return second
        if self.next != "the":
            subject, verb, that = self.take("NOUN"), self.take("VERB"), self.take("SCONJ")
            said = self.verdict()
            self.below(said, that)
            self.below(verb, subject, said)
            return verb
        return self.clause()

    def clause(self) -> int:
        subject, copula = self.noun(), self.next == "was"
        verb = self.take("AUX" if copula else "VERB")
        tag = {"not": "PART", "never": "ADV", "truly": "ADV", "very": "ADV"}.get(self.next)
        adverbs = [self.take(tag)] if tag else []
        adjective = self.take("ADJ")
        self.below(adjective, *adverbs)
        if self.next == "but":
            self.joined(adjective, self.take("CCONJ"))
        elif self.next == "rather":
            rather = self.take("ADV")
            self.below(rather, self.take("ADP"))
            self.joined(adjective, rather)
        elif self.next == "than":
            than, other = self.take("ADP"), self.noun()
            self.below(other, than)
            self.below(adjective, other)
        if copula:
            self.below(adjective, subject, verb)
            return adjective
        self.below(verb, subject, adjective)
        return verb

    def joined(self, first: int, by: int) -> None:
        second = self.take("ADJ")
        self.below(second, by)
        self.below(first, second)
