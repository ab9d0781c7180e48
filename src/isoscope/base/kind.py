"""Kinds: ways to compare the arms of a study, or several studies. A kind is a folder, found by its name.

A built-in kind is a folder of `isoscope.studies`; another is a folder that `plugins` in params.yaml names. Nothing
outside the folder names the kind. Its files, each loaded when it is asked for:

- `tables.py`: `tables(studies, **options)` returns tables by name; a name that ends in `.json` is data for
  `section.html`. `FILES`: patterns of files in a run's output that it reads. `points(tables)`: metrics for MLflow.
- `views.py`: `VIEWS`, in the report's order. `TESTED`: table of differences between arms → its caption; `tables` always
  returns it, if without rows.
- `comparison.py`, of a kind that compares several studies: `COMPARISON`, its options (`platform.config.comparing`).
- `claims.py`, if it has any: `claims(tables, confidence=…, margin=…)` returns findings for the first screen.
- `published.yaml`, if anything was published: see `platform.results.published`.
- `page.py`, if it looks at checkpoints: `text(tables, facts)` returns what their page says beside figures
  (`platform.results.checkpoint_text`); `completed(tables, facts)` adds what views need from the page's manifest.
  `page.html`: a template that extends `checkpoint.html`, if that is not enough.
- `section.html`, if tables and figures are not enough: a template, given `key` and the data of the `.json` files.
- `section.js`: a script for that template.
- `__init__.py`, which loads nothing: `QUESTION`, heading on the page; `TERMS`, words that the page explains; `STORES`,
  what it reads beside runs: `states`, `measures`.

Every study is also of the kind `arms`: its tables and views stand before those of the study's own kind. For all kinds
it reads what runs scored on the test split (`study_runs` in its `tables.py`), and names `BASELINES`.
"""

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from isoscope.base.built_in import COMPARES, KINDS_OF_STUDIES, PLAIN
from isoscope.base.errors import InputError, brief

KINDS: dict[str, tuple[str, Path]] = {}
"""Kinds of plugins: name → dotted name of the package that its folder is loaded as, and the folder."""
TAKEN = ("bands", "comparison", "confusion", "metrics", "seeds", "transformed")
"""Tables of all studies."""


class Kind(NamedTuple):
    """A way to compare."""

    name: str
    package: str
    folder: Path

    def _of(self, part: str, name: str, default: Any) -> Any:
        """Return `name` of one of the kind's modules; the default if it has no such module or name."""
        if not (self.folder / f"{part or '__init__'}.py").is_file():
            return default
        return getattr(import_module(".".join(filter(None, (self.package, part)))), name, default)

    @property
    def question(self) -> str:
        """Heading of its part of the page."""
        return str(self._of("", "QUESTION", self.name.replace("_", " ").capitalize()))

    @property
    def terms(self) -> Mapping[str, str]:
        """Term of its part of the page → what it means."""
        return dict(self._of("", "TERMS", {}))

    @property
    def baselines(self) -> Mapping[str, str]:
        """Baseline of a task's manifest → its name on the page."""
        return dict(self._of("", "BASELINES", {}))

    @property
    def stores(self) -> tuple[str, ...]:
        """What its tables read beside the runs' outputs."""
        return tuple(self._of("", "STORES", ()))

    @property
    def files(self) -> tuple[str, ...]:
        """Files in a run's output that its tables read where they exist, as patterns."""
        return tuple(self._of("tables", "FILES", ()))

    def tables(self, studies: Mapping[str, Any], **options: Any) -> dict[str, Any]:
        """Return its tables by name. `studies`: name → `StudyRuns`. Raises `InputError` for what is no table."""
        found = self._of("tables", "tables", lambda *_, **__: {})(studies, **options)
        faults = {"tables": found} if not isinstance(found, Mapping) else dict(filter(self._faulty, found.items()))
        for name, table in faults.items():
            raise InputError(
                f"kind {self.name!r}: {name} is {brief(table)}; expected a pandas.DataFrame under a new name"
            )
        return dict(found)

    def runs(self, outputs: Iterable[Any], manifest: Mapping[str, Any], stores: Mapping[str, Any]) -> Any:
        """Return `StudyRuns`, which the tables of all kinds take, from the outputs of finished runs; of `arms`."""
        return self._of("tables", "study_runs", None)(outputs, manifest, stores)

    def points(self, tables: Mapping[str, Any]) -> dict[str, float]:
        """Return the metrics that its tables add to the tracked run."""
        return dict(self._of("tables", "points", lambda _: {})(tables))

    @property
    def views(self) -> tuple[Any, ...]:
        """The figures of its tables, in the report's order."""
        return tuple(self._of("views", "VIEWS", ()))

    @property
    def tested(self) -> Mapping[str, str]:
        """Its tables of differences between arms, with their captions."""
        return dict(self._of("views", "TESTED", {}))

    def claims(self, tables: Mapping[str, Any], *, confidence: float, margin: float) -> list[Any]:
        """Return what its tables say, for the first screen of a page."""
        make: Callable[..., Iterable[Any]] = self._of("claims", "claims", lambda *_, **__: ())
        return list(make(tables, confidence=confidence, margin=margin))

    def completed(self, tables: Mapping[str, Any], facts: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return tables of checkpoints with what views need from the manifest of their page."""
        return dict(self._of("page", "completed", lambda tables, _: tables)(tables, facts))

    def text(self, tables: Mapping[str, Any], facts: Mapping[str, Any]) -> Any:
        """Return what a page of checkpoints says beside its figures, a `CheckpointText`, or None."""
        return self._of("page", "text", lambda *_: None)(tables, facts)

    @property
    def section(self) -> str | None:
        """The template of what its part of the report shows beside tables and figures."""
        return self._text("section.html")

    @property
    def script(self) -> str | None:
        """The script of that template."""
        return self._text("section.js")

    @property
    def page(self) -> str | None:
        """The template of a page of checkpoints."""
        return self._text("page.html")

    def _text(self, name: str) -> str | None:
        file = self.folder / name
        return file.read_text("utf-8") if file.is_file() else None

    @property
    def modules(self) -> tuple[str, ...]:
        """Its built-in modules, which are part of the code version of what uses it."""
        return tuple(name for name in COMPARES if name.startswith(f"{self.package}.") or name == self.package)

    def _faulty(self, table: tuple[str, Any]) -> bool:
        """Return whether a table is none, or has the name of a table of all studies."""
        name, rows = table
        return (name in TAKEN and self.name != PLAIN) or not (name.endswith(".json") or hasattr(rows, "columns"))


def kind(name: str) -> Kind:
    """Return a kind by its name, which params.yaml has been checked for."""
    return Kind(name, *KINDS.get(name, (f"isoscope.studies.{name}", Path(__file__).parents[1] / "studies" / name)))


def of_study(name: str) -> tuple[Kind, ...]:
    """Return the kinds of a study of this kind: `arms`, which every study is of, and its own."""
    return tuple(map(kind, dict.fromkeys((PLAIN, name))))


def names() -> tuple[str, ...]:
    """Return the names of all kinds, built in or of plugins."""
    return (*KINDS_OF_STUDIES, *KINDS)
