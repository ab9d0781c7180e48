"""Links between the words of sentence pairs: a language of known translations, textbook pairs, and Pharaoh's format."""

import re
from pathlib import Path

import numpy as np
import pytest

from isoscope.base.errors import InputError
from isoscope.data.word_links import learned_links, read_links

Pairs = tuple[list[list[str]], list[list[str]], list[list[tuple[int, int]]]]


def translated(count: int, *, swapped: bool, seed: int = 0) -> Pairs:
    """Return sentences, their translations word by word, and the true links; `swapped`: neighbours change places."""
    random = np.random.default_rng(seed)
    one, other, links = [], [], []
    for _ in range(count):
        words = random.integers(0, 60, random.integers(3, 9)).tolist()
        order = list(range(len(words)))
        for place in range(0, len(words) - 1, 2) if swapped else ():
            order[place : place + 2] = order[place : place + 2][::-1]
        one.append([f"a{word}" for word in words])
        other.append([f"b{words[place]}" for place in order])
        links.append(sorted((place, at) for at, place in enumerate(order)))
    return one, other, links


def share(found: list[list[tuple[int, int]]], true: list[list[tuple[int, int]]]) -> float:
    """Return F1 of links over the corpus."""
    right = sum(len({*a} & {*b}) for a, b in zip(found, true, strict=True))
    return 2 * right / (sum(map(len, found)) + sum(map(len, true)))


@pytest.mark.parametrize("swapped", [False, True])
def test_links_of_a_language_with_known_translations_are_found(swapped: bool) -> None:
    one, other, true = translated(400, swapped=swapped)
    assert share(learned_links(one, other), true) > 0.97


def test_words_of_unrelated_sentences_are_linked_at_random() -> None:
    """A negative control: with the translations of other sentences, few links are translations of each other."""
    one, other, _ = translated(400, swapped=True)
    moved = other[1:] + other[:1]
    assert translations(one, other, learned_links(one, other)) > 0.97
    assert translations(one, moved, learned_links(one, moved)) < 0.1


def translations(one: list[list[str]], other: list[list[str]], links: list[list[tuple[int, int]]]) -> float:
    """Return which share of the linked words translate each other, such as a7 and b7."""
    found = [one[n][i][1:] == other[n][j][1:] for n, own in enumerate(links) for i, j in own]
    return sum(found) / len(found)


def test_textbook_pairs() -> None:
    """The example of Knight 1999: co-occurrence over sentences tells which word is the house."""
    one = [["das", "haus"], ["das", "buch"], ["ein", "buch"]]
    other = [["the", "house"], ["the", "book"], ["a", "book"]]
    assert learned_links(one, other, iterations=20) == [[(0, 0), (1, 1)]] * 3


def test_a_word_that_nothing_explains_has_no_link() -> None:
    one, other, true = translated(300, swapped=False)
    extra = [[*words, "um"] for words in other]
    found = learned_links(one, extra)
    linked = sum(j == len(words) - 1 for links, words in zip(found, extra, strict=True) for _, j in links)
    assert linked < 0.1 * len(found)
    assert share(found, true) > 0.9


def test_pharaoh(tmp_path: Path) -> None:
    file = tmp_path / "links.txt"
    file.write_text("0-1 1-0\n\n", "utf-8")
    assert read_links(file, [["a", "b"], ["c"]], [["x", "y"], []]) == [[(0, 1), (1, 0)], []]
    for text, message in (
        ("0-1\n", "1 lines for 2 sentence pairs"),
        ("0-1 1:0\n\n", "line 1: '1:0' is no link; expected places such as 0-1"),
        ("0-2\n\n", "line 1: 0-2, but the sentences have 2, 2 words"),
    ):
        file.write_text(text, "utf-8")
        with pytest.raises(InputError, match=re.escape(message)):
            read_links(file, [["a", "b"], ["c"]], [["x", "y"], []])
