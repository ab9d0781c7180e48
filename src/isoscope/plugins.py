"""Register your own fusions, objectives, penalties, observers, views, data sets and measures.

    from pydantic import PositiveFloat
    from isoscope.plugins import fusion

    @fusion("product")
    def product(hidden_size: int, scale: PositiveFloat): ...   # returns a torch.nn.Module

The factory's parameters (except `hidden_size`, which comes from the encoder) are options beside
`model.fusion.kind: product` in the configuration, validated against their annotations: plain types, with bounds of
`annotated_types` or pydantic. `check(options)` raises `ValueError` for options that do not agree. Import torch inside
functions to keep configuration checks fast. Built-in kinds register here, too.
"""

import hashlib
import io
import sys
import tokenize
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from runpy import run_path
from types import MappingProxyType, ModuleType
from typing import Any, Literal, TypeVar

from isoscope.base import kind as kinds
from isoscope.base.built_in import KINDS_OF_STUDIES
from isoscope.base.code_closure import stripped
from isoscope.base.errors import PLUGIN_MODULE, InputError, plugin_line, said
from isoscope.base.metric import Metric as Metric
from isoscope.base.registry import DATASETS, FUSIONS, MEASURES, OBJECTIVES, OBSERVERS, PENALTIES, VIEWS
from isoscope.base.view import View as View
from isoscope.base.view import under as under

Check = Callable[[Any], None]
Factory = TypeVar("Factory", bound=Callable[..., Any])
__all__ = [
    "DATASETS", "FUSIONS", "MEASURES", "OBJECTIVES", "OBSERVERS", "PENALTIES", "VIEWS", "Metric", "View",
    "dataset", "digest", "fusion", "load", "measure", "objective", "observer", "penalty", "under", "view",
]  # fmt: skip
REGISTRIES = (FUSIONS, DATASETS, MEASURES, PENALTIES, OBJECTIVES, OBSERVERS, VIEWS)


def fusion(
    name: str, check: Check | None = None, earlier: Mapping[str, Any] = MappingProxyType({})
) -> Callable[[Factory], Factory]:
    """Register a factory `(hidden_size, **options) -> Module` as the fusion `name`.

    It may also take `causal`, whether the encoder is causal, and `init_std`, the standard deviation of the tables at
    the start. `earlier`: options that the configurations of earlier checkpoints lack, with the values that they had.
    The module's `forward(word, position, token_type, mask)` takes three tensors (batch, sequence, hidden), already
    zero at masked positions, and the mask (batch, sequence, 1); it returns one of the same shape.
    """
    return FUSIONS.register(name, check=check, earlier=earlier)


def dataset(name: str, check: Check | None = None) -> Callable[[Factory], Factory]:
    """Register a factory `(**options) -> {"train": rows, "validation": rows, "test": rows}` as the data source `name`.

    A row is `{"sentence": str, "label": int}` or `{"sentence1": str, "sentence2": str, "label": int}`.
    """
    return DATASETS.register(name, check=check)


def measure(
    name: str, metrics: Sequence[Metric] = (), of: Literal["points", "pairs"] = "points"
) -> Callable[[Factory], Factory]:
    """Register a function `(cell) -> {metric: number}` as the measure `name`; `metrics`: what its numbers mean.

    `cell.points` is a float64 array (points, dimensions): one layer of one snapshot. See `isoscope.states.cloud.Cell`
    for its other fields. `of`: `pairs` for a measure of the pairs of sentences in `cell.pairs`, which people scored.
    """
    return MEASURES.register(name, metrics, of=of)


def penalty(name: str, check: Check | None = None) -> Callable[[Factory], Factory]:
    """Register a factory `(**options) -> callable` as the penalty `name`; `weight`, `warmup` and `points` are added.

    The callable takes points (n, d) and their labels (n). It returns a scalar tensor, or a named tuple: its first field
    is a scalar tensor, and its other fields (scalars, or one number per class) become metrics of the run.
    """
    return PENALTIES.register(name, check=check)


def objective(name: str, check: Check | None = None) -> Callable[[Factory], Factory]:
    """Register a factory `(task, **options) -> Objective` as the objective `name`.

    `task` is an `isoscope.objectives.Task`; see `isoscope.objectives.Objective` for the interface of the result. The
    factory is its class, or its return annotation names that: the `metrics` are then known before it is built.
    """
    return OBJECTIVES.register(name, check=check)


def observer(name: str, check: Check | None = None) -> Callable[[Factory], Factory]:
    """Register a factory `(**options) -> Observer` as the observer `name`, for the section `observers`.

    See `isoscope.training.observers.Observer` for the interface.
    """
    return OBSERVERS.register(name, check=check)


def view(name: str) -> Callable[[Factory], Factory]:
    """Register a factory `() -> View` as the view `name`: a figure of every study's report.

    It is drawn if a study has the tables that the view needs. Notebooks find it by its name.
    """
    return VIEWS.register(name)


def load(path: Path) -> None:
    """Run a plugin file, which registers its plugins; of a folder, all its Python files in the order of their names.

    A folder with a `tables.py` is a kind of study (`isoscope.base.kind`). A folder of files may have such folders.
    Raises `InputError` if a file is missing, fails or ends the program, and if a folder has none.
    """
    path = path.resolve()
    if (path / "tables.py").is_file():
        _load_kind(path)
        return
    if path.is_dir():
        files = [*sorted(path.glob("*.py")), *sorted(file.parent for file in path.glob("*/tables.py"))]
        if not files:
            raise InputError(f"plugin {path}: the folder has no Python file; put one there, or correct `plugins`")
        for file in files:
            load(file)
        return
    if not path.is_file():
        raise InputError(f"plugin {path}: no such file; correct `plugins` in params.yaml, or --plugin")
    if path.suffix != ".py":
        raise InputError(f"plugin {path}: expected a Python file ending in .py")
    if _loaded(path):
        return
    before = path.read_bytes()
    _run(path, f"{PLUGIN_MODULE}{path.stem}")
    if path.read_bytes() != before:
        raise InputError(f"plugin {path}: has changed while it was loaded; run the same command again")
    _CODE[path] = _code(before)


def _run(path: Path, name: str) -> dict[str, Any]:
    """Run a file and return its names; no __pycache__ is written beside it, which would change a DVC dependency."""
    try:
        return run_path(str(path), run_name=name)
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        raise InputError(f"plugin {plugin_line(error) or path}: {said(error)}") from error


def _load_kind(folder: Path) -> None:
    """Make a folder a package, whose modules are imported when they are asked for."""
    if folder.name in KINDS_OF_STUDIES:
        raise InputError(f"plugin {folder}: {folder.name!r} is a built-in kind; give it another name")
    if kinds.KINDS.get(folder.name, ("", None))[1] == folder:
        return
    package = ModuleType(f"{PLUGIN_MODULE}{folder.name}")
    for earlier in [name for name in sys.modules if name.startswith(f"{package.__name__}.")]:
        del sys.modules[earlier]  # of another folder of this name
    package.__path__ = [str(folder)]
    if (declared := folder / "__init__.py").is_file():
        vars(package).update(
            {name: value for name, value in _run(declared, package.__name__).items() if name.isupper()}
        )
    sys.modules[package.__name__] = package
    kinds.KINDS[folder.name] = package.__name__, folder


def kind_digests(name: str) -> dict[str, str]:
    """Return file → sha256 of the files of a plugin's kind that can change its tables; none of a built-in kind."""
    if name not in kinds.KINDS:
        return {}
    folder = kinds.KINDS[name][1]
    return {f"{name}/{file.name}": _code(file.read_bytes()) for file in sorted(folder.glob("*.py"))}


def _loaded(path: Path) -> bool:
    return any(plugin.file == path for registry in REGISTRIES for plugin in registry.own.values())


def digest(path: Path) -> str:
    """Return the sha256 of a plugin's code without comments and docstrings.

    Of a loaded file it is that of the code that runs: the file may have been edited since.
    """
    return (_CODE.get(path) if _loaded(path) else None) or _code(path.read_bytes())


_CODE: dict[Path, str] = {}
"""Digest of the code of each loaded file."""


def _code(content: bytes) -> str:
    """Return the digest of a file's code, in the encoding that Python finds for it."""
    encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
    source = io.TextIOWrapper(io.BytesIO(content), encoding).read()
    return hashlib.sha256(stripped(source).encode()).hexdigest()
