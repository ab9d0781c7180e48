"""The deterministic baselines of a task, from its manifest."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from isoscope.errors import InputError
from isoscope.metrics.classification import SCORES

NAMES = {"tfidf_unigrams": "TF-IDF, unigrams", "tfidf_bigrams": "TF-IDF, uni- and bigrams"}


def baselines_on_test(manifest: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Name → accuracy, f1, matthews and n on the test split: the majority class of train, then TF-IDF classifiers.

    Raises `InputError` where the manifest lacks what that needs.
    """
    try:
        train, test = (list(manifest["splits"][split]["labels"].values()) for split in ("train", "test"))
        counts = np.zeros((len(test), len(test)), dtype=np.int64)
        counts[:, int(np.argmax(train))] = test
        found = {"majority class": {"n": float(sum(test)), **{name: score(counts) for name, score in SCORES.items()}}}
        for key, splits in manifest["baselines"].items():
            found[NAMES.get(key, key)] = {name: float(splits["test"][name]) for name in ("n", *SCORES)}
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"manifest.json: {error} is missing or of another form; prepare the task again") from None
    return found
