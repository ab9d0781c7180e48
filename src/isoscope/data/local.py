"""Read labelled text from a user's files: one file, or a folder with a file per split."""

from collections.abc import Mapping
from pathlib import Path

from isoscope.data.assembly import Raw, build
from isoscope.data.corpus import SPLITS, Corpus
from isoscope.data.files import EXTENSIONS, read_file
from isoscope.errors import InputError


def read(
    path: Path,
    *,
    columns: Mapping[str, str],
    splits: Mapping[str, str | None],
    held_out: float,
    seed: int,
    licence: str,
) -> Corpus:
    """Read the corpus at `path`, a file (parquet, csv, tsv, jsonl) or a folder of such files, one per split.

    `columns` maps `sentence` (or `sentence1`, `sentence2`) and `label` to the file's names. In a folder, `splits` maps
    train, validation and test to file stems (`dev` for `dev.csv`); null holds the split out from train. A single file
    is all train, so its validation and test must be null. The corpus' source is the name without folders, which differ
    between machines. Raises `InputError` with file, row and column.
    """
    raw = read_splits(Path(path), columns=columns, splits=splits)
    return build(raw, columns=columns, held_out=held_out, seed=seed, source=f"local:{Path(path).name}", licence=licence)


def read_splits(path: Path, *, columns: Mapping[str, str], splits: Mapping[str, str | None]) -> dict[str, Raw]:
    """Return raw tables of the splits with files at `path`; arguments as in `read`."""
    if unknown := set(splits) - set(SPLITS):
        raise InputError(f"splits: unknown {', '.join(sorted(unknown))}; expected {', '.join(SPLITS)}")
    if splits.get("train") is None:
        raise InputError("splits.train: null; train must name a file, only validation and test can be held out")
    label = columns["label"]
    texts = [theirs for ours, theirs in columns.items() if ours != "label"]
    if path.is_file():
        for split in ("validation", "test"):
            if splits.get(split) is not None:
                raise InputError(
                    f"splits.{split}: {path} is a single file, which is all train; set null to hold {split} out"
                )
        return {"train": read_file(path, texts=texts, label=label)}
    if not path.is_dir():
        raise InputError(f"{path}: no such file or folder")
    return {
        split: read_file(_find(path, stem, split), texts=texts, label=label)
        for split, stem in splits.items()
        if stem is not None
    }


def _find(folder: Path, stem: str, split: str) -> Path:
    if stem in ("", "..") or "\0" in stem or Path(stem).name != stem:
        raise InputError(f"splits.{split}: {stem!r} is not a file name without suffix; give a file of {folder}")
    found = [folder / f"{stem}.{extension}" for extension in EXTENSIONS if (folder / f"{stem}.{extension}").is_file()]
    if len(found) == 1:
        return found[0]
    if found:
        raise InputError(f"{folder}: splits.{split}: {' and '.join(file.name for file in found)} both match; keep one")
    there = ", ".join(sorted(file.name for file in folder.iterdir())[:10]) or "nothing"
    raise InputError(f"{folder}: splits.{split}: no {stem}.{{{','.join(EXTENSIONS)}}}; the folder holds {there}")
