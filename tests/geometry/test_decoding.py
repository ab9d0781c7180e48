"""Decodability: added vectors are decoded; vectors bound by random circular convolution are not."""

import numpy as np
import pytest

from isoscope.geometry.linear_maps import decodability

WORDS, PLACES, D = 120, 20, 64
SENTENCES = 40


@pytest.fixture
def tokens() -> dict[str, np.ndarray]:
    """Sentences of `PLACES` tokens with words drawn at random, and the vectors of both."""
    draw = np.random.default_rng(0)
    word, place = draw.standard_normal((WORDS, D)), draw.standard_normal((PLACES, D))
    of = draw.integers(0, WORDS, SENTENCES * PLACES)
    at = np.tile(np.arange(PLACES), SENTENCES)
    return {"word": word[of], "position": place[at], "sentence": np.repeat(np.arange(SENTENCES), PLACES)}


def bound(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.fft.irfft(np.fft.rfft(one) * np.fft.rfft(other), one.shape[1])


def read(points: np.ndarray, tokens: dict, **options: int) -> dict:
    return decodability(
        points, {name: tokens[name] for name in ("word", "position")}, tokens["sentence"], seed=0, **options
    )


def test_each_of_two_added_vectors_is_read_back(tokens: dict) -> None:
    """Word and position span D + D dimensions in D: no map separates all, and chance is far below."""
    concatenated = np.concatenate([tokens["word"], tokens["position"]], 1)
    found = read(concatenated, tokens)
    assert found["word"].rate == found["position"].rate == 1.0
    assert found["word"].candidates == len(np.unique(tokens["word"], axis=0))
    assert found["position"].candidates == PLACES
    added = read(tokens["word"] + tokens["position"], tokens)
    assert added["word"].rate > 0.5
    assert added["position"].rate > 0.5


def test_binding_by_circular_convolution_hides_both_from_a_linear_reader(tokens: dict) -> None:
    """No pair of word and position comes twice, so that none can be known by heart; addition is the control."""
    tokens |= {"word": np.random.default_rng(4).standard_normal(tokens["word"].shape)}
    for one in read(bound(tokens["word"], tokens["position"]), tokens).values():
        assert one.rate < 2 / one.candidates + 0.03
    added = read(np.concatenate([tokens["word"], tokens["position"]], 1), tokens)
    assert all(one.rate == 1.0 for one in added.values())


def test_noise_and_shuffled_pairs_are_at_chance(tokens: dict) -> None:
    noise = np.random.default_rng(1).standard_normal((SENTENCES * PLACES, D))
    found = read(noise, tokens)
    assert abs(found["position"].rate - 1 / PLACES) < 0.03
    assert abs(read(tokens["position"], tokens)["position"].control - 1 / PLACES) < 0.05


def test_a_rotation_a_shift_and_a_scale_change_nothing(tokens: dict) -> None:
    points = tokens["word"] + tokens["position"]
    turn = np.linalg.qr(np.random.default_rng(2).standard_normal((D, D)))[0]
    assert read(1e3 * points @ turn + 7.0, tokens) == read(points, tokens)
    skewed = points @ turn * np.linspace(0.01, 3, D)
    assert read(skewed, tokens) != read(points, tokens)


def test_words_unseen_in_training_are_found_too(tokens: dict) -> None:
    """Every sentence has different words, so a map cannot memorise them."""
    draw = np.random.default_rng(3)
    word = draw.standard_normal((SENTENCES * PLACES, D))
    points = word @ draw.standard_normal((D, 2 * D))
    found = decodability(points, {"word": word}, tokens["sentence"], seed=0)["word"]
    assert found.rate == 1.0
    assert found.control < 0.02
