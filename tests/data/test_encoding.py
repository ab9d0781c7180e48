"""A file in another encoding or form is named with the command that cures it, and the command does."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from isoscope.base.errors import InputError
from isoscope.data.encoding import check_utf8
from isoscope.data.files import read_file

ROWS = "text,label\n" + "".join(f"a café number {number}, naïve “quoted”,pos\n" for number in range(9)).replace(
    ", naïve", " naïve"
)
CYRILLIC = "text,label\n" + "хороший фильм,pos\nплохой фильм,neg\n" * 9


def refused(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        read_file(path, ["text", "label"])
    return str(caught.value)


@pytest.mark.parametrize(
    "encoding, name",
    [("utf-16", "UTF-16"), ("utf-32", "UTF-32"), ("utf-16-le", "UTF-16LE"), ("cp1252", "WINDOWS-1252")],
)
def test_the_command_converts_the_encoding_that_is_found(tmp_path: Path, encoding: str, name: str) -> None:
    path = tmp_path / "my reviews.csv"
    path.write_bytes(ROWS.encode(encoding))
    line = refused(path)
    assert name in line
    subprocess.run(line.partition("convert it: ")[2], shell=True, check=True)
    table = read_file(tmp_path / "my reviews.utf8.csv", ["text", "label"]).table
    assert table["text"][3].as_py() == "a café number 3 naïve “quoted”"


@pytest.mark.parametrize("encoding", ["cp1251", "koi8-r"])
def test_another_encoding_is_not_guessed(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "a.csv").write_bytes(CYRILLIC.encode(encoding))
    expected = r"line 2, byte 1.*the file's encoding is not known; convert it: iconv -f ENCODING"
    assert re.search(expected, refused(tmp_path / "a.csv"))


@pytest.mark.parametrize(
    "name, separator, cure", [("a.csv", ";", "convert it"), ("a.csv", "|", "convert it"), ("b.csv", "\t", "rename it"),
                              ("a.tsv", ",", "rename it"), ("it's $x.csv", ";", "convert it")]
)  # fmt: skip
@pytest.mark.parametrize("text", ["good", "good, really", '"good; or ""bad"""'])
def test_the_command_cures_the_delimiter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, separator: str, cure: str, text: str
) -> None:
    if separator == "," and text == "good, really":
        text = '"good, really"'
    path = tmp_path / name
    path.write_text(f"text{separator}label\n" + f"{text}{separator}01\n{text}{separator}NA\n" * 5, "utf-8")
    line = refused(path)
    assert re.search(r"line 1: (semicolons|bars|tabs|commas) separate the columns, where \.", line)
    command = line.partition("it: ")[2]
    if "$" in name or command.startswith("mv"):
        subprocess.run(command.replace("python -c", f"{sys.executable} -c", 1), shell=True, check=True)
    else:  # without another process, which imports pandas first
        monkeypatch.setattr(sys, "argv", shlex.split(command)[2:])
        exec(sys.argv[0])
    if '"' not in text:
        assert cure in line
    (made,) = (one for one in tmp_path.iterdir() if one != path)
    table = read_file(made, ["text", "label"]).table
    expected = {'"good; or ""bad"""': 'good; or "bad"'}.get(text, text.strip('"'))
    assert table.to_pydict() == {"text": [expected] * 10, "label": ["01", "NA"] * 5}


@pytest.mark.parametrize("data", [b"PK\x03\x04\0\0", b"\x1f\x8b\x08", b"PAR1abc", b"%PDF-1.7", b"\xd0\xcf\x11\xe0"])
def test_what_is_no_text_at_all_is_named(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.csv").write_bytes(data)
    assert re.search(r"a\.csv: is (a|an|compressed) .*; (save|decompress|give)", refused(tmp_path / "a.csv"))


@pytest.mark.parametrize("text", ["", "a", "naïve", "\ufeffa", "日本語", "a\r\nb"])
def test_utf_8_passes(text: str) -> None:
    check_utf8(text.encode(), Path("a.txt"))
