"""isoscope from a notebook: a study's tables and figures, and the geometry of any model's representations.

import isoscope
isoscope.load("fusion").table("geometry")
isoscope.load("fusion").view("probing").figure()
isoscope.geometry(model, texts)      # a Hugging Face model with its tokenizer, or a checkpoint's folder
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from isoscope import paths
from isoscope.errors import InputError

if TYPE_CHECKING:  # the command line takes its defaults from here and need not wait
    import pandas as pd
    from matplotlib.figure import Figure

    from isoscope.studies.view import Picture, Tables, View

VECTORS = ("first", "last", "mean", "words")
"""Kinds of representation: of the first and the last token, the mean over tokens, and of words."""
ANALYSES = ("measures", "planes", "probing", "attention", "embedding", "spectrum", "topology")
"""What `isoscope geometry` can be asked for, in the order of its page."""
MEASURES = ("anisotropy", "isoscore", "similarity", "intrinsic", "homology", "classes", "shape")
"""The measures that are built in, see `isoscope.analysis.measures`."""
ALIGNMENTS = ("joint", "procrustes", "sign")
"""How it can turn the planes of several checkpoints, see `isoscope.geometry.planes`."""


class Defaults(NamedTuple):
    """What is looked at where nothing else is asked for, here and by `isoscope geometry`."""

    sentences: int = 500
    words: int = 500
    attended: int = 40
    max_length: int = 128
    subsample: int = 64
    draws: int = 20
    confidence: float = 0.95
    folds: int = 5
    alignment: str = "procrustes"  # unrelated checkpoints share no axes, only their sentences
    seed: int = 0
    batch_size: int = 32


DEFAULTS = Defaults()


class StudyView(NamedTuple):
    """One view of a study: a figure with its table and its caption, or one for each of `values`."""

    pictures: "list[Picture]"

    @property
    def values(self) -> list[Any]:
        """What `figure`, `table` and `caption` can be asked for; None where the view has one figure."""
        return [one.value for one in self.pictures]

    def figure(self, value: Any = None) -> "Figure":
        """The figure of a value (without one, the first), drawn. Raises `InputError` for another value."""
        return self._of(value).figure()

    def table(self, value: Any = None) -> "pd.DataFrame":
        """The rows that the same figure shows."""
        return self._of(value).table[0]

    def caption(self, value: Any = None) -> str:
        """What the report says below the same figure."""
        return self._of(value).caption

    @property
    def remakes(self) -> str | None:
        """The published figure that this one makes again, with the paper's name."""
        return self.pictures[0].view.remakes

    def _of(self, value: Any) -> "Picture":
        from isoscope.config.explain import nearest

        for one in self.pictures:
            if value is None or one.value == value:
                return one
        name, known = self.pictures[0].view.name, [str(one) for one in self.values]
        raise InputError(f"view {name!r}: no figure of {value!r}{nearest(str(value), known)}")


class StudyTables(NamedTuple):
    """The tables and views of one study, in the folder where its stages left them."""

    name: str
    folder: Path

    @property
    def tables(self) -> list[str]:
        """Names for `table`."""
        return sorted({name for _, tables in self._sections() for name in tables})

    def table(self, name: str) -> "pd.DataFrame":
        """One table of all runs, with their arm and seed. Raises `InputError` where there is none of that name."""
        from isoscope.config.explain import nearest

        for _, tables in self._sections():
            if name in tables:
                return tables[name]
        raise InputError(f"study {self.name!r}: no table {name!r}{nearest(name, self.tables)}")

    @property
    def views(self) -> list[str]:
        """Names for `view`: the figures of the report."""
        return [one.name for one in self._pictures("")]

    def view(self, name: str) -> StudyView:
        """A figure by its name (`probing-label`), or all of a view (`probing`).

        Raises `InputError` where there is none of that name.
        """
        from isoscope.config.explain import nearest

        whole = self._pictures(name)
        if found := [one for one in whole if one.name == name] or [one for one in whole if one.view.name == name]:
            return StudyView(found)
        raise InputError(f"study {self.name!r}: no view {name!r}{nearest(name, self.views)}")

    def _pictures(self, name: str) -> "list[Picture]":
        """Every figure, or those of views whose names `name` begins with."""
        from isoscope.studies.view import pictures

        return [
            one
            for views, tables in self._sections()
            for one in pictures((view for view in views if not name or name.startswith(view.name)), tables)
        ]

    def _sections(self) -> "list[tuple[tuple[View, ...], Tables]]":
        """The views of each part of the report, with their tables."""
        from isoscope.analysis.tables import COMPARISON, read_tables
        from isoscope.studies import isotropy, views
        from isoscope.studies.stored import StoredTables

        inside, chart = (StoredTables(self.folder / name) for name in (paths.INSIDE, paths.CHART))
        runs = read_tables(self.folder).by_name if (self.folder / COMPARISON).is_file() else {}
        return [(views.INSIDE, inside), (views.RUNS, runs), (isotropy.VIEWS, chart)]


def load(study: str, *, project: Path | None = None) -> StudyTables:
    """The tables and views of a study of the project around the working folder (or around `project`).

    Raises `InputError` where there is no project, no such study, or the study has no tables: with what makes them.
    """
    root = paths.find_project(project).folder
    folder = root / paths.analysed(study)
    if not any(folder.glob("inside/*.parquet")) and not any(folder.glob("chart/*.parquet")):
        raise InputError(f"study {study!r}: {root / paths.inside(study)} is not there; {_missing(root, study)}")
    return StudyTables(study, folder)


def _missing(root: Path, study: str) -> str:
    """What it takes for a study to have tables of its inside. Raises `InputError` where there is no such study."""
    from isoscope.config.load import Configuration

    settings = Configuration(root).study(study)
    if not settings.seeds:
        return f"it is not run: give it seeds in {paths.PARAMS} (studies.{study}.seeds), then run: isoscope repro"
    if "inside" in settings.looks:
        return "run: isoscope repro"
    return f"add inside to studies.{study}.looks in {paths.PARAMS}, then run: isoscope repro"


def geometry(
    model: Any,
    texts: Sequence[str],
    *,
    labels: Sequence[int] | None = None,
    tokenizer: Any = None,
    measures: Sequence[str] | None = None,
    vectors: Sequence[str] | None = None,
    twin: bool = False,
    words: int = DEFAULTS.words,
    max_length: int = DEFAULTS.max_length,
    subsample: int = DEFAULTS.subsample,
    draws: int = DEFAULTS.draws,
    confidence: float = DEFAULTS.confidence,
    seed: int = DEFAULTS.seed,
    batch_size: int = DEFAULTS.batch_size,
) -> "pd.DataFrame":
    """Every measure at every layer of a model, over `texts`; a row per layer, kind of representation and figure.

    `model`: a Hugging Face encoder or decoder without a head, on any device, or the folder of a checkpoint; it and its
    `tokenizer` (a fast one, needed unless `model` is a folder) are left as they were. `vectors`: `usual_vectors`, if
    none is named. `twin`: also of the same architecture with weights drawn anew, as snapshot `random`. Texts are cut to
    `max_length` tokens, or to what the model takes. Columns as in `analysis.geometry`; `baseline` is isotropic noise
    at the same n and d. Raises `InputError` for what is no such model or text.
    """
    import tempfile

    import numpy as np
    import pyarrow as pa

    from isoscope.analysis import hidden_states as passes
    from isoscope.analysis.catalogue import usual_vectors
    from isoscope.analysis.geometry import Cells, frame, places
    from isoscope.analysis.measures import BUILT_IN
    from isoscope.analysis.trajectory import RANDOM, Snapshot, Trajectory, write_arrays, write_probe, write_snapshots
    from isoscope.corpora import probe, tokens
    from isoscope.models import encoder

    if "classes" in (measures or ()) and labels is None:
        raise InputError("measures: 'classes' needs labels")
    if labels is not None and len(labels) != len(texts):
        raise InputError(f"labels: {len(labels)} for {len(texts)} texts")
    if isinstance(model, str | Path):
        pieces, model = tokens.load(Path(model), padded=False), encoder.load_encoder(Path(model))
    elif tokenizer is None or not getattr(tokenizer, "is_fast", False):
        raise InputError(
            "tokenizer: give the model's fast tokenizer (AutoTokenizer.from_pretrained), or a folder as model"
        )
    else:
        pieces = tokens.WordPieces(tokenizer.backend_tokenizer, tokenizer.pad_token_id or 0, len(tokenizer))
        model = encoder.bare(model)
    columns: dict[str, Any] = {"sentence": list(texts)}
    if labels is not None:
        columns["label"] = np.asarray(labels, np.int64)
    table = pa.table(columns)
    with _unpadded(pieces.backend), _as_it_was(model), tempfile.TemporaryDirectory() as place:
        chosen = probe.probe_set(
            pieces,
            table,
            np.arange(table.num_rows),
            max_length=min(max_length, encoder.positions(model)),
            words=words,
            block=min(40, table.num_rows),
            attended=1,
            seed=seed,
        )
        snapshots = [Snapshot("model", 0, None, True, "")]
        if twin:
            snapshots.append(Snapshot(RANDOM, None, None, False, ""))
        folder = Path(place)
        for one in snapshots:
            looked_at = encoder.twin(model, seed=encoder.TWIN_SEED + seed) if one.name == RANDOM else model
            arrays = passes.hidden_states(looked_at, chosen, pad_id=pieces.pad_id, batch_size=batch_size)
            write_arrays(folder / "states" / f"{one.name}.safetensors", arrays, "model")
        write_probe(folder, chosen)
        write_snapshots(folder, snapshots, {})
        run = Trajectory(folder)
        cells = Cells(run, subsample=subsample, draws=draws, confidence=confidence, seed=seed)
        if vectors is None:
            vectors = usual_vectors(
                causal=encoder.causal(model, max(chosen.encoded.ids, key=len)), cls=chosen.begins_special
            )
        names = list(measures or BUILT_IN)
        return frame([row for cell in places(run, vectors) for row in cells.measured(*cell, names)])


@contextmanager
def _unpadded(backend: Any) -> Iterator[None]:
    """The tokenizer without padding and truncation, and afterwards with those that it had."""
    padding, truncation = backend.padding, backend.truncation
    backend.no_padding()
    backend.no_truncation()
    try:
        yield
    finally:
        if padding is not None:
            backend.enable_padding(**padding)
        backend.no_truncation()
        if truncation is not None:
            backend.enable_truncation(**truncation)


@contextmanager
def _as_it_was(model: Any) -> Iterator[None]:
    """The model in evaluation mode, and afterwards each part of it in the mode that it had."""
    modes = [(part, part.training) for part in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training
