"""What the tests of measures share."""

import numpy as np
import pytest


@pytest.fixture
def random() -> np.random.Generator:
    """The same stream of random numbers for each test."""
    return np.random.default_rng(0)
