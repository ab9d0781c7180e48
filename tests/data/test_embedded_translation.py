"""Generated pairs follow their rule, and their source has the entropy that its facts state."""

from collections import Counter
from math import log
from statistics import mean, stdev

import numpy as np
import pytest

from isoscope.data.corpus import SPLITS, texts
from isoscope.data.draws import Draws
from isoscope.data.embedded import generate
from isoscope.data.embedded_translation import CLASSES, LENGTHS, Language, pairs

SETTINGS = {"size": 1000, "difficulty": 2, "seed": 0}


def log_probability(language: Language, words: list[str]) -> float:
    """Return ln p of a source sentence, by the counts of the generator's choices."""
    found = -log(len(LENGTHS)) + log(language.first.count(words[0]) / len(language.first))
    for place in range(1, len(words)):
        successors = language.successors(words[place - 2] if place > 1 else None, words[place - 1])
        found += log(language.ranks.count(successors.index(words[place])) / len(language.ranks))
    return found


@pytest.mark.parametrize("difficulty", [1, 2, 5])
def test_entropy_is_the_mean_surprise_of_sentences(difficulty: int) -> None:
    language = Language(Draws("entropy"), difficulty)
    drawn = [language.sentence() for _ in range(4000)]
    surprise = [-log_probability(language, words) for words in drawn]
    assert mean(map(len, drawn)) == pytest.approx(8, abs=0.2)
    assert mean(surprise) == pytest.approx(language.entropy * 9, abs=4 * stdev(surprise) / len(surprise) ** 0.5)


def translated(language: Language, sentence: str) -> str:
    """Translate by another route: cut into clauses, mark places, sort."""
    clauses: list[list[str]] = [[]]
    for word in sentence.split():
        if language.class_of[word] == "particle":
            clauses.append([])
        clauses[-1].append(word)
    found = []
    for clause in clauses:
        text = "".join(language.class_of[word][0] for word in clause)
        text = "".join(f"{letter}{number:02d}" for number, letter in enumerate(text))
        while (place := text.find("a")) >= 0:
            noun = text[place + 3 : place + 4] == "n"
            swapped = text[place + 3 : place + 6] + "A" + text[place + 1 : place + 3] + text[place + 6 :]
            text = text[:place] + (swapped if noun else "A" + text[place + 1 :])
        numbers = [(text[place], int(text[place + 1 : place + 3])) for place in range(0, len(text), 3)]
        found += [clause[number] for letter, number in numbers if letter != "v"]
        found += [clause[number] for letter, number in numbers if letter == "v"]
    return " ".join(language.translation[word] for word in found)


def test_translation_follows_the_rule() -> None:
    draws = Draws("rule")
    language = Language(draws, 3)
    moved = 0
    for _ in range(500):
        words = language.sentence()
        target = " ".join(language.translated(words))
        assert target == translated(language, " ".join(words))
        moved += target != " ".join(language.translation[word] for word in words)
    assert moved > 400


def test_words_are_in_one_language_and_one_class_and_near_zipf() -> None:
    drawn, _ = pairs(Draws("words"), 2, 4000)
    source, target = (Counter(word for pair in drawn for word in pair[side].split()) for side in (0, 1))
    assert sorted(source.values()) == sorted(target.values()), "the translation of words is one to one"
    assert not source.keys() & target.keys()
    assert 250 <= len(source) <= sum(CLASSES.values()) == 300
    ranked = np.array(sorted(source.values(), reverse=True)[:100])
    slope = np.polyfit(np.log(np.arange(1, 101)), np.log(ranked), 1)[0]
    assert -1.3 < slope < -0.6


def test_splits_are_disjoint_and_lengths_as_stated() -> None:
    corpus = generate("translation", **SETTINGS)
    found = [text for split in SPLITS for text in texts(corpus.splits[split])]
    assert [corpus.splits[split].num_rows for split in SPLITS] == [700, 150, 150]
    assert len({source for source, _ in found}) == 1000
    assert {len(source.split()) for source, _ in found} == set(LENGTHS)
    assert corpus.labels == ()
    assert corpus.splits["train"].column_names == ["sentence1", "sentence2"]
    assert {key: corpus.facts[key] for key in SETTINGS} == SETTINGS
