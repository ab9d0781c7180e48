"""Files are replaced whole: an error while a new file is written leaves the old file, and nothing beside it."""

from pathlib import Path

import pytest

from isoscope.base.atomic_files import replacing_file


def fill(file: Path, error: type[BaseException]) -> None:
    with replacing_file(file, "table") as fresh:
        fresh.write_text("half")
        raise error


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_an_error_leaves_the_old_file_alone(tmp_path: Path, error: type[BaseException]) -> None:
    file = tmp_path / "a.zip"
    file.write_text("old")
    with pytest.raises(error):
        fill(file, error)
    assert [one.name for one in tmp_path.iterdir()] == ["a.zip"]
    assert file.read_text() == "old"
    with replacing_file(file, "table") as fresh:
        fresh.write_text("new")
    assert file.read_text() == "new"
