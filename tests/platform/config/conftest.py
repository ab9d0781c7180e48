"""A copy of the committed configuration for the configuration tests."""

import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the configuration of this repository, which is the working folder."""
    for name in ("params.yaml", "dvc.yaml", "MLproject", "variants", "profiles"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copyfile
        copy(ROOT / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path
