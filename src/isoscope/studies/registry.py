"""Kinds: ways to compare the arms of a study, or several studies. A kind is a folder, found by its name.

A built-in kind is a folder here; another is a folder that `plugins` in params.yaml names. Nothing outside the folder
names the kind. Its files, each loaded when it is asked for:

- `tables.py`: `tables(studies, **options)` returns tables by name; a name that ends in `.json` is data for
  `section.html`. `FILES`: patterns of files in a run's output that it reads. `points(tables)`: metrics for MLflow.
- `views.py`: `VIEWS`, in the report's order. `TESTED`: table of differences between arms → its caption.
- `comparison.py`, of a kind that compares several studies: `COMPARISON`, its options (`platform.config.comparing`).
- `claims.py`, if it has any: `claims(tables, confidence=…, margin=…)` returns findings for the first screen.
- `published.yaml`, if anything was published: see `studies.published`.
- `section.html`, if tables and figures are not enough: a template, given `key` and the data of the `.json` files.
- `__init__.py`, which loads nothing: `QUESTION`, heading on the page; `STORES`, what it reads beside runs: `states`,
  `measures`.
"""

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from isoscope import plugins
from isoscope.base.built_in import COMPARES
from isoscope.base.errors import InputError, brief

if TYPE_CHECKING:
    from isoscope.studies.findings import Finding
    from isoscope.studies.view import View


TAKEN = ("bands", "comparison", "confusion", "seeds")
"""Tables of all studies."""


class Kind(NamedTuple):
    """A way to compare; the kind `arms`, which adds nothing to the comparison of arms, has no folder."""

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
        faults = {"tables": found} if not isinstance(found, Mapping) else dict(filter(_faulty, found.items()))
        for name, table in faults.items():
            raise InputError(
                f"kind {self.name!r}: {name} is {brief(table)}; expected a pandas.DataFrame under a new name"
            )
        return dict(found)

    def points(self, tables: Mapping[str, Any]) -> dict[str, float]:
        """Return the metrics that its tables add to the tracked run."""
        return dict(self._of("tables", "points", lambda _: {})(tables))

    @property
    def views(self) -> "tuple[View, ...]":
        """The figures of its tables, in the report's order."""
        return tuple(self._of("views", "VIEWS", ()))

    @property
    def tested(self) -> Mapping[str, str]:
        """Its tables of differences between arms, with their captions."""
        return dict(self._of("views", "TESTED", {}))

    def claims(self, tables: Mapping[str, Any], *, confidence: float, margin: float) -> "list[Finding]":
        """Return what its tables say, for the first screen of a page."""
        make: Callable[..., Iterable[Any]] = self._of("claims", "claims", lambda *_, **__: ())
        return list(make(tables, confidence=confidence, margin=margin))

    @property
    def section(self) -> str | None:
        """The template of what its page shows beside tables and figures."""
        file = self.folder / "section.html"
        return file.read_text("utf-8") if file.is_file() else None

    @property
    def digests(self) -> dict[str, str]:
        """File → sha256 of its code, if it is a plugin."""
        return plugins.kind_digests(self.name)

    @property
    def modules(self) -> tuple[str, ...]:
        """Its built-in modules, which are part of the code version of what uses it."""
        return tuple(name for name in COMPARES if name.startswith(f"{self.package}.") or name == self.package)


def _faulty(table: tuple[str, Any]) -> bool:
    """Return whether a table is none, or has the name of a table of all studies."""
    name, rows = table
    return name in TAKEN or not (name.endswith(".json") or hasattr(rows, "columns"))


def kind(name: str) -> Kind:
    """Return a kind by its name, which params.yaml has been checked for."""
    if name in plugins.KINDS:
        return Kind(name, *plugins.KINDS[name])
    folder = Path(__file__).parent / name
    return Kind(name, f"isoscope.studies.{name}", folder)
