"""Damage to a file: each way leaves a new file, so that hard links to the old one stay whole."""

from collections.abc import Callable
from pathlib import Path


def _replace(file: Path, content: bytes) -> None:
    file.unlink()
    file.write_bytes(content)


def truncate(file: Path) -> None:
    _replace(file, file.read_bytes()[: file.stat().st_size // 2])


def flip(file: Path) -> None:
    """Flip one bit in the middle; the size stays."""
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    _replace(file, bytes(content))


def swap(file: Path) -> None:
    """Swap it with the next file of its folder; of a folder with one file, with its own bytes reversed."""
    others = sorted(one for one in file.parent.iterdir() if one.is_file() and one != file)
    if not others:
        return _replace(file, file.read_bytes()[::-1])
    other = next((one for one in others if one > file), others[0])
    mine, theirs = file.read_bytes(), other.read_bytes()
    _replace(file, theirs)
    _replace(other, mine)
    return None


KINDS: dict[str, Callable[[Path], None]] = {
    "truncated": truncate,
    "emptied": lambda file: _replace(file, b""),
    "missing": Path.unlink,
    "swapped": swap,
    "flipped": flip,
}
