"""Store hidden states on disk: a folder per run with its probe set and one file per snapshot, read layer by layer."""

import hashlib
import json
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, wraps
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file
from tqdm import tqdm

from isoscope.base.atomic_files import replacing_file, write_text
from isoscope.base.errors import InputError
from isoscope.base.parquet import write_parquet
from isoscope.data.arrays import Indices, Vectors
from isoscope.data.probe import ProbeSet
from isoscope.data.treebank import Treebank
from isoscope.states.choices import GIVEN, SENTENCE, VECTORS

SNAPSHOTS, PROBE, WORDS, TOKENS = "snapshots.json", "probe.parquet", "words.parquet", "tokens.parquet"
TREEBANK = "treebank.parquet"
RANDOM = "random"
"""Name of the random-weights control's snapshot: another initialisation, never trained."""
GRADIENTS = ("word", "position", "token_type", "norm", "fusion")
"""Parts of the embedding block with their own weights, in the order of the array `block_gradient`."""


P = ParamSpec("P")
Rows: TypeAlias = dict[str, Any] | pd.DataFrame


class Snapshot(NamedTuple):
    """One state of the weights: `name` (`step-128`), update, epoch (or None), whether chosen, sha256."""

    name: str
    step: int | None
    epoch: int | None
    best: bool
    weights: str

    @property
    def who(self) -> dict[str, Any]:
        """Columns of a table that name the snapshot."""
        return {"snapshot": self.name, "step": self.step, "best": self.best}

    @property
    def dated(self) -> dict[str, Any]:
        """The same columns, and its epoch."""
        return {"snapshot": self.name, "step": self.step, "epoch": self.epoch, "best": self.best}


class Trajectory:
    """The hidden states of one run over its snapshots, by step; arrays are loaded on demand.

    Raises `InputError` if the folder is not such a folder, or holds only a random-weights control.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            facts = json.loads((folder / SNAPSHOTS).read_text("utf-8"))
            self.facts: dict[str, Any] = facts["facts"]
            self.snapshots = [Snapshot(**one) for one in facts["snapshots"]]
            self.best = next((one for one in self.trained if one.best), self.trained[-1])
            """The snapshot chosen on validation, else the last."""
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise InputError(f"{folder / SNAPSHOTS}: no list of snapshots ({error}); run: isoscope repro") from None

    @cached_property
    def probe(self) -> pd.DataFrame:
        """Sentences: row, text (and its pair), label, tokens, first and second token."""
        return pd.read_parquet(self.folder / PROBE)

    @property
    def groups(self) -> Indices:
        """Which sentences belong together, `[n]`; without groups, each is alone."""
        found: Indices = self.probe["group"].to_numpy() if "group" in self.probe else np.arange(len(self.probe))
        return found

    @cached_property
    def words(self) -> pd.DataFrame:
        """Sampled word occurrences: sentence, position (index of the first token), text."""
        return pd.read_parquet(self.folder / WORDS)

    @cached_property
    def tokens(self) -> pd.DataFrame:
        """Tokens whose embedding parts are kept: sentence, position, token id, special or not."""
        return pd.read_parquet(self.folder / TOKENS)

    @cached_property
    def treebank(self) -> pd.DataFrame | None:
        """Words of the treebank: sentence, text, tag, depth; None if the run was extracted without a treebank."""
        path = self.folder / TREEBANK
        return pd.read_parquet(path) if path.is_file() else None

    @property
    def trained(self) -> list[Snapshot]:
        """Snapshots of training, by step."""
        return sorted((one for one in self.snapshots if one.step is not None), key=lambda one: one.step or 0)

    @property
    def twin(self) -> Snapshot | None:
        """The random-weights control, if there is one."""
        return next((one for one in self.snapshots if one.step is None), None)

    @property
    def moments(self) -> dict[str, Snapshot]:
        """The first, the chosen and the last snapshot of training, and the twin, by name."""
        found = {"first": self.trained[0], "chosen": self.best, "last": self.trained[-1]}
        return found | ({"random": self.twin} if self.twin else {})

    def arrays(self, snapshot: Snapshot) -> "Arrays":
        return Arrays(self.folder / "states" / f"{snapshot.name}.safetensors")

    def places(self, vectors: Collection[str]) -> Iterator[tuple[Snapshot, str, int]]:
        """Yield every (snapshot, kind of representation, layer) of the kinds `vectors` that the model has."""
        for snapshot in self.snapshots:
            arrays = self.arrays(snapshot)
            for kind in arrays.vectors:
                if kind in vectors:
                    yield from ((snapshot, kind, layer) for layer in arrays.layers(kind))


def tabled(rows: Callable[P, Iterator[Rows]]) -> Callable[P, pd.DataFrame]:
    """Let a function that yields rows of snapshots, all as `dict` or all as tables, return one table."""

    @wraps(rows)
    def made(*arguments: P.args, **options: P.kwargs) -> pd.DataFrame:
        found: list[Any] = list(rows(*arguments, **options))
        whole = pd.DataFrame(found) if not found or isinstance(found[0], dict) else pd.concat(found, ignore_index=True)
        return whole.astype({"step": "Int64"}) if found else whole

    made.__annotations__ = rows.__annotations__ | {"return": pd.DataFrame}  # for help()
    return made


def stacked(parts: Iterable[Mapping[str, pd.DataFrame]]) -> dict[str, pd.DataFrame]:
    """Return the tables of all parts by name, those of one name below each other."""
    found: dict[str, list[pd.DataFrame]] = {}
    for part in parts:
        for name, table in part.items():
            found.setdefault(name, []).append(table)
    return {name: pd.concat(tables, ignore_index=True) for name, tables in found.items()}


class Arrays:
    """The arrays of one snapshot, memory-mapped; `layer` reads only what it returns."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = safe_open(path, "numpy")
        except (OSError, SafetensorError) as error:
            raise InputError(f"{path}: cannot be read ({str(error).splitlines()[0]}); run: isoscope repro") from None
        self.names = frozenset(self._file.keys())

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._file.get_slice(name).get_shape())

    def layers(self, name: str) -> range:
        """Return the numbers of the layers of a representation; a sentence vector is of the last layer of `mean`."""
        size, sentence = self.shape(name)[0], name.endswith(SENTENCE)
        end = self.shape(name.removesuffix(SENTENCE) + "mean")[0] if sentence else size
        return range(end - size, end)

    def layer(self, name: str, layer: int) -> Vectors:
        """Return one layer of `first`, `last`, `mean`, `sentence` or `words`."""
        return self._file.get_slice(name)[layer - self.layers(name)[0]]

    def last(self, name: str) -> Vectors:
        """Return the last layer of such a representation."""
        return self.layer(name, self.layers(name)[-1])

    def whole(self, name: str) -> Vectors:
        return self._file.get_tensor(name)

    @property
    def vectors(self) -> list[str]:
        """The layered representations in the file."""
        return [name for name in (*VECTORS, GIVEN) if name in self.names]


def write_probe(folder: Path, probe: ProbeSet) -> None:
    """Write the probe set's tables; equal sets give equal bytes."""
    encoded = probe.encoded
    begin = [int(np.argmin(special)) for special in probe.special]  # start of the text, after [CLS] if there is one
    columns = {
        f"text{place + 1}" if len(probe.texts[0]) > 1 else "text": list(part)
        for place, part in enumerate(zip(*probe.texts, strict=True))
    }
    sizes = encoded.lengths[probe.block]
    place = np.concatenate([np.arange(size) for size in sizes])
    tables = {
        PROBE: {
            "row": probe.rows,
            **columns,
            "label": encoded.labels,
            **({} if probe.groups is None else {"group": probe.groups}),
            "tokens": encoded.lengths,
            "ids": [ids.tolist() for ids in encoded.ids],
            "shifted": np.isin(np.arange(len(encoded.ids)), probe.shifted.sentence),
            **{
                f"token_{k + 1}": [
                    int(ids[at + k]) if len(ids) > at + k else -1 for ids, at in zip(encoded.ids, begin, strict=True)
                ]
                for k in range(2)
            },
        },
        WORDS: {"sentence": probe.words.sentence, "position": probe.words.begin, "text": probe.words.text},
        TOKENS: {
            "sentence": np.repeat(probe.block, sizes),
            "position": place,
            "token": np.concatenate([encoded.ids[one] for one in probe.block]),
            "end": ((place == 0) | (place == np.repeat(sizes, sizes) - 1))
            & np.concatenate([probe.special[one] for one in probe.block]),
        },
    }
    for name, table in tables.items():
        write_parquet(pd.DataFrame(table), folder / name)


def write_treebank(folder: Path, bank: Treebank) -> None:
    """Write the words of a treebank with their attributes."""
    columns = {"sentence": bank.sentence, "text": bank.text, "tag": bank.tag, "depth": bank.depth}
    write_parquet(pd.DataFrame(columns), folder / TREEBANK)


def write_arrays(path: Path, arrays: Mapping[str, Vectors], key: str) -> None:
    """Write a snapshot's arrays, completely or not at all, marked with `key`, which identifies their inputs."""
    whole = {name: np.ascontiguousarray(value) for name, value in arrays.items()}
    with replacing_file(path, "states") as fresh:
        # A single entry: safetensors writes several entries in no fixed order.
        save_file(whole, fresh, metadata={"key": f"{key} {_sha256(whole)}"})


def holds(path: Path, key: str) -> bool:
    """Return whether the file exists, was made from `key`, and is unchanged; warn if it is damaged."""
    if not path.is_file():
        return False
    try:
        with safe_open(path, "numpy") as file:
            made_from, _, sha256 = (file.metadata() or {}).get("key", "").rpartition(" ")
            if made_from != key:
                return False
            whole = _sha256({name: file.get_tensor(name) for name in file.keys()}) == sha256  # noqa: SIM118
    except (OSError, SafetensorError, UnicodeDecodeError):
        whole = False
    if not whole:
        print(f"warning: {path}: has changed since it was written; rebuilding it", file=sys.stderr)
    return whole


def _sha256(arrays: Mapping[str, npt.NDArray[Any]]) -> str:
    """Return sha256 over names, types, shapes and bytes."""
    digest = hashlib.sha256()
    for name, value in sorted(arrays.items()):
        digest.update(f"{name}\0{value.dtype}\0{value.shape}\0".encode())
        digest.update(value.data)
    return digest.hexdigest()


def write_snapshots(folder: Path, snapshots: Sequence[Snapshot], facts: Mapping[str, Any]) -> None:
    """Write the list of snapshots; it makes the folder readable."""
    text = json.dumps({"facts": facts, "snapshots": [one._asdict() for one in snapshots]}, indent=1) + "\n"
    write_text(folder / SNAPSHOTS, text, "states")


def extract_snapshots(
    folder: Path,
    chosen: ProbeSet,
    snapshots: Sequence[Snapshot],
    arrays: Callable[[Snapshot], Mapping[str, Vectors]],
    *,
    key: str,
    facts: Mapping[str, Any],
    title: str,
    watch: Callable[[], None] = lambda: None,
) -> None:
    """Write the arrays of each snapshot, the probe set, and the list of snapshots with `facts`.

    An unchanged file made from the same `key` and weights is kept. `watch` is called before each snapshot and may raise
    to stop.
    """
    for snapshot in tqdm(snapshots, desc=title, unit="snapshot", disable=None):
        watch()
        path, made_from = folder / "states" / f"{snapshot.name}.safetensors", f"{key} {snapshot.weights}"
        if not holds(path, made_from):
            write_arrays(path, arrays(snapshot), made_from)
    write_probe(folder, chosen)
    counts = {"sha256": chosen.digest, "sentences": len(chosen.rows), "truncated": chosen.encoded.truncated}
    write_snapshots(folder, snapshots, {**counts, **facts})
