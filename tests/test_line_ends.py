"""Git keeps the bytes of hashed files, whatever line ends a user's git is set to."""

import subprocess
from pathlib import Path

import pytest

from isoscope.base.atomic_files import sha256
from isoscope.platform.config.tree import read_yaml
from isoscope.platform.runs.provenance import dvc_md5

ROOT = Path(__file__).parents[1]
# What a user writes and a stage depends on (texts, plugins, variants); our own sources are all of one style.
FOLDERS = sorted(
    {
        Path(dependency).parts[0]
        for stage in read_yaml(ROOT, Path("dvc.yaml"))["stages"].values()
        for dependency in (stage.get("do") or stage)["deps"]
        if Path(dependency).parts[0] not in ("src", "data", "models", "reports")
    }
)
FILES = {
    "reviews.csv": b'review,stars\r\n"two\r\nlines",1\r\nfine,0\r\n',
    "folder/deeper/mixed.tsv": b"review\tstars\r\nfine\t1\nbad\t0\r\n",
    "old.jsonl": b'{"text": "a", "label": 1}\r{"text": "b"}\r',
    "own.py": b"def one():\r\n    return 1\r\n",
    "own.yaml": b"data:\r\n  source: null\r\n",
}


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)


def handed_on(folder: Path, attributes: str, committed: str, cloned: str) -> tuple[dict[str, bytes], Path]:
    """Return a clone's bytes of `FILES` in each of `FOLDERS`, for two values of `core.autocrlf`, and the clone."""
    first, second = folder / "first", folder / "second"
    for place in FOLDERS:
        for name, content in FILES.items():
            (first / place / name).parent.mkdir(parents=True, exist_ok=True)
            (first / place / name).write_bytes(content)
    (first / ".gitattributes").write_text(attributes, "utf-8")
    git(first, "init", "--quiet")
    git(first, "-c", f"core.autocrlf={committed}", "add", "--all")
    git(first, "commit", "--quiet", "--message", "texts")
    git(folder, "-c", f"core.autocrlf={cloned}", "clone", "--quiet", "--no-local", str(first), str(second))
    found = {f"{place}/{name}": (second / place / name).read_bytes() for place in FOLDERS for name in FILES}
    return found, second


def test_the_folders_are_the_ones_that_users_write_into() -> None:
    assert FOLDERS == ["plugins", "texts", "variants"]


@pytest.mark.parametrize("cloned", ["true", "input", "false"])
@pytest.mark.parametrize("committed", ["true", "false"])
def test_a_clone_has_every_byte(tmp_path: Path, committed: str, cloned: str) -> None:
    attributes = (ROOT / ".gitattributes").read_text("utf-8")
    found, clone = handed_on(tmp_path, attributes, committed, cloned)
    assert found == {f"{place}/{name}": content for place in FOLDERS for name, content in FILES.items()}
    for place in FOLDERS:
        assert dvc_md5(clone / place) == dvc_md5(tmp_path / "first" / place)
        assert sha256(clone / place / "reviews.csv") == sha256(tmp_path / "first" / place / "reviews.csv")


def test_without_these_lines_a_hash_would_change(tmp_path: Path) -> None:
    lines = (ROOT / ".gitattributes").read_text("utf-8").splitlines(keepends=True)
    found, _ = handed_on(tmp_path, "".join(line for line in lines if "-text" not in line), "false", "false")
    assert found["texts/reviews.csv"] == FILES["reviews.csv"].replace(b"\r\n", b"\n")
