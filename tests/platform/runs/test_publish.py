"""An output is the old or the new folder, whole, never written through, and its seal lists its files."""

from pathlib import Path

import pytest

from isoscope.base.atomic_files import MANIFEST, fault, seal, write_whole
from isoscope.platform.runs.stored import publish


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "run/checkpoints").mkdir(parents=True)
    (tmp_path / "run/checkpoints/weights").write_bytes(b"w" * 5000)
    (tmp_path / "run/metrics.jsonl").write_text("{}\n")
    (tmp_path / "run/manifest.json").write_text("seal")
    return tmp_path / "run"


def test_it_is_a_whole_copy_with_extras_and_without_the_seal_also_in_the_place_of_a_link(
    source: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    (tmp_path / "cache").mkdir()
    out.symlink_to(tmp_path / "cache")
    for _ in range(2):
        publish(source, out, extra={"config.yaml": "a: 1\n"}, leave_out={"manifest.json"})
        assert not out.is_symlink()
        found = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
        assert found == {"checkpoints/weights", "metrics.jsonl", "config.yaml"}
        (out / "stray").write_text("the second time replaces the first whole")
    assert list((tmp_path / "cache").iterdir()) == [], "replaced, not followed"
    assert (out / "checkpoints/weights").read_bytes() == (source / "checkpoints/weights").read_bytes()


def test_a_seal_notices_every_flipped_bit_and_every_lost_file(tmp_path: Path) -> None:
    folder = tmp_path / "sealed"
    write_whole(folder, lambda where: [(where / name).write_bytes(b"0123456789") for name in "ab"] and None, "output")
    assert fault(folder) is None
    for position in range(10):
        data = bytearray(b"0123456789")
        data[position] ^= 1
        (folder / "a").write_bytes(data)
        assert fault(folder) == "a has changed since it was written"
    (folder / "a").unlink()
    assert fault(folder) == "a is missing"
    (folder / "manifest.json").unlink()
    assert fault(folder) == "manifest.json is missing"
    (folder / "a").write_bytes(b"0123456789")
    seal(folder)
    assert fault(folder) is None


def test_what_a_killed_writer_left_is_no_part_of_the_seal(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner/weights").write_bytes(b"whole")
    (tmp_path / f".{MANIFEST}.writing").write_text("{", "utf-8")
    (tmp_path / "inner/.table.parquet.writing").write_bytes(b"half")
    left = tmp_path / "inner/.epoch-3.writing"
    left.mkdir()
    (left / "weights").write_bytes(b"half")
    seal(tmp_path)
    assert fault(tmp_path) is None
    names = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")}
    assert names == {MANIFEST, "inner", "inner/weights"}
    (tmp_path / "inner/weights").write_bytes(b"other")
    assert fault(tmp_path) == "inner/weights has changed since it was written"
