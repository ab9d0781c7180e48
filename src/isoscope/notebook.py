"""Notebook interface: tables and figures of a study, and the geometry of any model's representations.

    import isoscope
    isoscope.load("fusion").table("comparison")  # scores of the arms on the test split, differences, verdicts
    isoscope.load("fusion").table("geometry")
    isoscope.load("fusion").view("probing").figure()
    isoscope.geometry(model, texts)

A model is a Hugging Face model with its tokenizer, or a checkpoint's folder; or vectors: an array, or several by name.
"""

import copy
import tempfile
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
from matplotlib.figure import Figure

from isoscope.base import paths
from isoscope.base.built_in import MEASURES
from isoscope.base.errors import InputError
from isoscope.base.view import Tables
from isoscope.data import tokens
from isoscope.data.plain import Texts
from isoscope.platform.config.explain import nearest
from isoscope.platform.config.load import Configuration
from isoscope.platform.figures.fonts import give_fonts
from isoscope.platform.figures.pictures import Picture, pictures, views_of
from isoscope.platform.results.study_tables import as_table, read_tables
from isoscope.states.catalogue import kind_of
from isoscope.states.checkpoint_states import extract_model
from isoscope.states.checkpoint_tables import asked_vectors
from isoscope.states.choices import DEFAULTS, SPACES, Settings, SpaceSettings
from isoscope.states.given_vectors import GivenVectors, find_vectors, given_arrays, write_given
from isoscope.states.measure import measured
from isoscope.states.trajectory import Trajectory


class StudyView(NamedTuple):
    """A view of a study: a figure with table and caption, or several figures, one per value of `values`."""

    pictures: list[Picture]

    @property
    def values(self) -> list[Any]:
        """Valid arguments of `figure`, `table` and `caption`; None stands for a view with a single figure."""
        return [one.value for one in self.pictures]

    def figure(self, value: Any = None) -> Figure:
        """Draw the figure of a value [default: the first]. Raises `InputError` for an unknown value."""
        give_fonts(figure := self._of(value).figure())
        return figure

    def table(self, value: Any = None) -> pd.DataFrame:
        """Return the rows shown in the figure of a value."""
        return self._of(value).table[0]

    def caption(self, value: Any = None) -> str:
        """Return the report's caption of the figure of a value."""
        return self._of(value).caption

    @property
    def remakes(self) -> str | None:
        """The published figure that this view reproduces, with the paper's name; None if there is none."""
        return self.pictures[0].remakes

    def _of(self, value: Any) -> Picture:
        for one in self.pictures:
            if value is None or one.value == value:
                return one
        name, known = self.pictures[0].view.name, [str(one) for one in self.values]
        raise InputError(f"view {name!r}: no figure of {value!r}{nearest(str(value), known)}")


class StudyTables(NamedTuple):
    """The tables and views of a study or comparison, read from its folder."""

    name: str
    folder: Path
    kind: str

    @property
    def tables(self) -> list[str]:
        """Names of the tables, for `table`."""
        return sorted(self._tables())

    def table(self, name: str) -> pd.DataFrame:
        """Return a table of all runs, with arm and seed. Raises `InputError` for an unknown name."""
        if name in (tables := self._tables()):
            return tables[name]
        raise InputError(f"study {self.name!r}: no table {name!r}{nearest(name, self.tables)}")

    @property
    def views(self) -> list[str]:
        """Names of the report's figures, for `view`."""
        return [one.name for one in self._pictures("")]

    def view(self, name: str) -> StudyView:
        """Return a figure by its name (`probing-label`), or all figures of a view (`probing`).

        Raises `InputError` for an unknown name.
        """
        whole = self._pictures(name)
        if found := [one for one in whole if one.name == name] or [one for one in whole if one.view.name == name]:
            return StudyView(found)
        raise InputError(f"study {self.name!r}: no view {name!r}{nearest(name, self.views)}")

    def _pictures(self, name: str) -> list[Picture]:
        """Return the figures of views whose name is a prefix of `name`; all figures if `name` is empty."""
        return [
            *pictures((view for view in views_of(self.kind) if not name or name.startswith(view.name)), self._tables())
        ]

    def _tables(self) -> Tables:
        found = read_tables(self.folder)
        return ChainMap({"comparison": as_table(found.comparison)}, found.by_name)  # type: ignore[arg-type]


def load(study: str, *, project: Path | None = None) -> StudyTables:
    """Return the tables and views of a study or comparison, in the project around the working folder or `project`.

    Raises `InputError` without project, for an unknown name, and without tables; it names the command that makes them.
    """
    root = paths.find_project(project).folder
    folder = root / paths.analysed(study)
    configuration = Configuration(root)  # loads the plugins, which may add views
    comparison = configuration.root.comparisons.get(study)
    asked = comparison or configuration.study(study)
    if not any((folder / paths.TABLES).glob("*.parquet")):
        remedy = "run: isoscope repro"
        if comparison is None and not configuration.study(study).seeds:
            remedy = f"the study has no seeds: set studies.{study}.seeds in {paths.PARAMS}, then {remedy}"
        raise InputError(f"{'comparison' if comparison else 'study'} {study!r}: {folder} does not exist; {remedy}")
    return StudyTables(study, folder, asked.kind)


def geometry(
    model: Any,
    texts: Iterable[str] | None = None,
    *,
    labels: Sequence[Any] | None = None,
    groups: Sequence[Any] | None = None,
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
) -> pd.DataFrame:
    """Compute every measure at every layer of a model over `texts`; a row per layer, kind of representation and metric.

    `model`: a Hugging Face encoder or decoder without a head, on any device, or a checkpoint's folder. `tokenizer`: a
    fast tokenizer, required unless `model` is a folder. Neither is changed. Or vectors, which need no texts: an array
    `[N, D]` of NumPy, a tensor of torch, a file as for `isoscope geometry`, or a mapping of names to arrays, whose
    table has a column `checkpoint`. `labels`: class of each row. `groups`: equal for rows that belong together, which
    are drawn and held out together. `vectors`: kinds of representations
    [default: those of `isoscope geometry`]. `twin`: add the same architecture with random weights, as snapshot
    `random`. Texts are truncated to `max_length` tokens, or to the model's maximum. Columns: see `states.measure`;
    `baseline` is isotropic noise at the same n and d. Raises `InputError` for an invalid model or text.
    """
    if "classes" in (measures or ()) and labels is None:
        raise InputError("measures: 'classes' needs labels")
    files = _vectors(model)
    if texts is None and not files:
        raise InputError("texts: a model reads sentences; give a list of them")
    table = _rows(texts, {"label": labels, "group": groups}, {one.name: one.rows.rows for one in files})
    of_points = [*(measures or (name for name in MEASURES if kind_of(name) == "points"))]
    settings = DEFAULTS._replace(
        vectors=tuple(vectors or ()),
        words=words,
        attended=1,
        max_length=max_length,
        subsample=subsample,
        draws=draws,
        confidence=confidence,
        seed=seed,
        batch_size=batch_size,
    )
    rows = np.arange(len(table))
    if files:
        of, found = Texts(table, (), "", "vectors", len(rows), numbered=True), list[pd.DataFrame]()
        for one in files:
            write = partial(write_given, points=one.rows.take(rows, one.name), texts=of, drawn=rows)
            found.append(_measured(write, of_points, settings).assign(checkpoint=one.name))
        whole = pd.concat(found, ignore_index=True)
        return whole if isinstance(model, Mapping) else whole.drop(columns="checkpoint")
    from isoscope.models import encoder  # imports torch, which `load` does without

    place = Path(model) if isinstance(model, str | Path) else None
    if place is not None:
        pieces, model = tokens.load(place, padded=False), encoder.load_encoder(place, as_stored=True)
    elif tokenizer is None or not getattr(tokenizer, "is_fast", False):
        raise InputError(
            "tokenizer: give the model's fast tokenizer (AutoTokenizer.from_pretrained), or a folder as model"
        )
    else:
        backend = copy.deepcopy(tokenizer.backend_tokenizer)
        backend.no_padding()
        pieces = tokens.Tokenizer(backend, tokenizer.pad_token_id or 0, len(tokenizer))
        model = encoder.bare(model)
    random = partial(encoder.twin, model, seed=encoder.TWIN_SEED + seed) if twin else None
    training = {part: part.training for part in model.modules()}

    def fill(folder: Path) -> None:
        try:
            about: dict[str, Any] = {"name": "model", "checkpoint": place}
            extract_model(folder, model.eval(), random, pieces, table, rows, settings, **about)
        finally:
            for part, mode in training.items():
                part.training = mode

    return _measured(fill, of_points, settings)


def _measured(fill: Callable[[Path], None], measures: Sequence[str], settings: Settings) -> pd.DataFrame:
    """Return the table of measures of the hidden states that `fill` writes into a folder."""
    with tempfile.TemporaryDirectory() as place:
        fill(Path(place))
        run = Trajectory(Path(place))
        return measured(run, measures, asked_vectors(run, settings.vectors), settings, title="measures")["geometry"]


def _rows(
    texts: Iterable[str] | None, named: Mapping[str, Sequence[Any] | None], vectors: Mapping[str, int]
) -> pa.Table:
    """Return the table of rows: a sentence (without texts the row's number), and the values of `label` and `group`.

    `vectors`: name → number of rows. Raises `InputError` for a row without a value, and for unequal lengths.
    """
    read = None if texts is None else list(texts)  # also a column of a table, or an array
    if wrong := [f"row {row}: {one!r:.40}" for row, one in enumerate(read or ()) if not isinstance(one, str)]:
        raise InputError(f"texts: {wrong[0]}: expected a text in each row")
    count = next(iter(vectors.values()), len(read or ()))
    columns: dict[str, Any] = {"sentence": read or [str(row) for row in range(count)]}
    for name, values in named.items():
        if values is not None:
            if (missing := np.flatnonzero(pd.isna(pd.Series(list(values), dtype=object)))).size:
                raise InputError(f"{name}s: row {missing[0]}: has no {name}; leave the row out")
            columns[name] = np.unique(np.asarray(values), return_inverse=True)[1]
    lengths = {"texts" if name == "sentence" else f"{name}s": len(values) for name, values in columns.items()}
    lengths |= vectors
    if unequal := [name for name, length in lengths.items() if length != count]:
        raise InputError(f"{unequal[0]}: {lengths[unequal[0]]} for {count} {'vectors' if vectors else 'texts'}")
    return pa.table(columns)


def _vectors(model: Any) -> list[GivenVectors]:
    """Return a file of vectors, an array or several by name; none of a model."""
    if isinstance(model, str | Path):
        return [one] if (one := find_vectors(str(model))) else []
    return given_arrays(model if isinstance(model, Mapping) else {"vectors": model} if hasattr(model, "shape") else {})


def spaces(
    arrays: Mapping[str, Any],
    *,
    keys: Mapping[str, Sequence[Any]] | None = None,
    groups: Mapping[str, Sequence[Any]] | None = None,
    **options: Any,
) -> Tables:
    """Compare arrays `[N, D]` by name, as `isoscope spaces` compares files of vectors; return its tables by name.

    `keys`: the key of each row, by the array's name; without them, rows belong together in their order. `groups`: of
    one array or more, what belongs together. `options`: fields of `isoscope.states.choices.SpaceSettings`. Raises
    `InputError` as the command, and for an unknown option.
    """
    from isoscope.states import compared_vectors

    if unknown := {*options} - {*SpaceSettings._fields}:
        raise InputError(f"spaces: no option {unknown.pop()!r}; there are: {', '.join(SpaceSettings._fields)}")
    files = given_arrays(arrays, key=keys, group=groups)
    called = {"key": "key" if keys else None, "groups": "group" if groups else None}
    with tempfile.TemporaryDirectory() as place:
        return compared_vectors.spaces(files, SPACES._replace(**options), Path(place), **called)[0]
