"""A sealed folder lists its files, and excludes files of a killed writer."""

from pathlib import Path

from isoscope.sealing import MANIFEST, fault, seal


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
