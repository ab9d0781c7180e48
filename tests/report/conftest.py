"""One study for all tests of the page."""

import pytest

from report_material import Material, make


@pytest.fixture(scope="session")
def material(tmp_path_factory: pytest.TempPathFactory) -> Material:
    """Three arms over three seeds, one of which stopped an epoch early."""
    arms = {"additive": 0.93, "conv2d_identity": 0.92, "fft": 0.75}
    return make(tmp_path_factory.mktemp("material"), arms=arms, plugins={"plugins/gated.py": "a" * 64})
