"""`isoscope open` refuses what is not a bundle, and names a damaged file; it leaves nothing behind then."""

import shutil
import stat
import zipfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from isoscope.base.errors import InputError
from isoscope.platform.stages import bundle
from isoscope.platform.stages.bundle import OPEN, SUMS, unpack

FILES = {
    "params.yaml": b"tasks: [tiny]\n" * 50,
    "reports/index.html": b"<html><p>Findings",
    "models/a.parquet": bytes(range(256)) * 9,
}


def packed(
    place: Path, files: dict[str, bytes] = FILES, more: Callable[[zipfile.ZipFile], None] = lambda _: None
) -> Path:
    """Write a bundle of files, as `isoscope bundle` does, and what `more` adds."""
    with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as zipped:
        for name, content in files.items():
            zipped.writestr(name, content)
        more(zipped)
        zipped.writestr(SUMS, "".join(f"{sha256(content).hexdigest()}  {name}\n" for name, content in files.items()))
    return place


def refused(archive: Path, out: Path) -> str:
    with pytest.raises(InputError) as error:
        unpack(archive, out)
    assert not [one for one in out.parent.iterdir() if out.name in one.name], "nothing is left behind"
    return str(error.value)


def test_an_intact_bundle_is_a_git_repository_with_its_files(tmp_path: Path) -> None:
    """The control."""
    assert unpack(packed(tmp_path / "a.zip"), tmp_path / "out") == []
    assert {name: (tmp_path / "out" / name).read_bytes() for name in FILES} == FILES
    assert (tmp_path / "out/.git").is_dir()


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_a_bundle_packed_otherwise_is_refused(tmp_path: Path, method: int) -> None:
    archive = packed(tmp_path / "a.zip", more=lambda zipped: zipped.writestr("b.txt", b"b" * 999, method))
    assert "b.txt: is packed as isoscope bundle packs nothing" in refused(archive, tmp_path / "out")


def test_a_flipped_byte_is_found_wherever_it_is(tmp_path: Path) -> None:
    whole = packed(tmp_path / "a.zip").read_bytes()
    with zipfile.ZipFile(tmp_path / "a.zip") as zipped:
        entries = {one.filename: one.header_offset + 30 + len(one.filename) for one in zipped.infolist()}
    for name, begin in entries.items():
        for place in (begin, begin + 3, begin + 8):
            damaged = bytearray(whole)
            damaged[place] ^= 0x10
            (tmp_path / "b.zip").write_bytes(damaged)
            said = refused(tmp_path / "b.zip", tmp_path / "out")
            assert name in said, "the file is named"
            assert "get it again" in said


def test_a_file_that_is_another_with_a_right_checksum_of_zip_is_found(tmp_path: Path) -> None:
    place = packed(tmp_path / "a.zip")
    with zipfile.ZipFile(place) as zipped:
        contents = {one: zipped.read(one) for one in zipped.namelist()}
    with zipfile.ZipFile(place, "w") as zipped:
        for name, content in (contents | {"params.yaml": b"tasks: []\n"}).items():
            zipped.writestr(name, content)
    assert "params.yaml is damaged" in refused(place, tmp_path / "out")


@pytest.mark.parametrize(
    "name",
    ["../outside", "/etc/outside", "a/../../outside", "a\\..\\outside", ".git/hooks/pre-commit", "x/.GIT/config"],
)
def test_a_name_that_leads_elsewhere_is_refused(name: str, tmp_path: Path) -> None:
    said = refused(packed(tmp_path / "a.zip", FILES | {name: b"x"}), tmp_path / "deep/er/out")
    assert "leads elsewhere; nothing was unpacked" in said
    assert not [*tmp_path.rglob("outside")]


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR])
def test_a_link_or_device_is_refused(kind: int, tmp_path: Path) -> None:
    def link(zipped: zipfile.ZipFile) -> None:
        info = zipfile.ZipInfo("link")
        info.external_attr = (kind | 0o777) << 16
        zipped.writestr(info, "/etc/passwd")

    assert "'link' is a link" in refused(packed(tmp_path / "a.zip", more=link), tmp_path / "out")


def test_a_zip_that_unpacks_to_far_more_than_its_size_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = packed(tmp_path / "a.zip", {"zeros": bytes(5_000_000)})
    monkeypatch.setattr(bundle, "LARGEST", 1_000_000)
    assert "too many bytes" in refused(place, tmp_path / "out")
    monkeypatch.setattr(bundle, "LARGEST", 10_000_000)
    assert unpack(place, tmp_path / "out") == []


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_files_that_are_missing_added_or_twice_there_are_named(tmp_path: Path) -> None:
    added = packed(tmp_path / "a.zip", more=lambda zipped: zipped.writestr("strange", "x"))
    assert "strange is not both" in refused(added, tmp_path / "out")
    twice = packed(tmp_path / "a.zip", more=lambda zipped: zipped.writestr("params.yaml", "x"))
    assert "twice" in refused(twice, tmp_path / "out")
    (tmp_path / "plain").mkdir()
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as zipped:
        zipped.writestr("params.yaml", "x")
    assert SUMS in refused(tmp_path / "a.zip", tmp_path / "out")


def test_what_is_no_zip_or_not_there_is_refused_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "text.zip").write_text("no zip")
    assert "no bundle" in refused(tmp_path / "text.zip", tmp_path / "out")
    assert "no such file" in refused(tmp_path / "missing.zip", tmp_path / "out")
    shutil.copy(packed(tmp_path / "a.zip"), tmp_path / "cut.zip")
    (tmp_path / "cut.zip").write_bytes((tmp_path / "cut.zip").read_bytes()[:-40])
    assert "no bundle" in refused(tmp_path / "cut.zip", tmp_path / "out")


def test_a_folder_with_files_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/mine").write_text("x")
    with pytest.raises(InputError, match="holds something already"):
        unpack(packed(tmp_path / "a.zip"), tmp_path / "out")
    assert (tmp_path / "out/mine").read_text() == "x"


@pytest.mark.parametrize(
    "licence", ["CC0-1.0", "CC-BY-4.0", "cc-by-sa-3.0", "MIT", "Apache-2.0", "BSD-3-Clause", "Public domain"]
)
def test_data_go_along_where_the_licence_allows_it(licence: str) -> None:
    assert OPEN.fullmatch(licence)


@pytest.mark.parametrize("licence", ["unknown", "", "CC-BY-NC-4.0", "CC-BY-ND-4.0", "proprietary", "see MIT", "other"])
def test_data_stay_where_it_does_not(licence: str) -> None:
    assert not OPEN.fullmatch(licence)
