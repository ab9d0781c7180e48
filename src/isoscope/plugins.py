"""Register your own fusions, objectives, penalties, observers, views, data sets and measures.

    from pydantic import PositiveFloat
    from isoscope.plugins import fusion

    @fusion("product")
    def product(hidden_size: int, scale: PositiveFloat): ...   # returns a torch.nn.Module

The factory's parameters (except `hidden_size`, which comes from the encoder) are options beside
`model.fusion.kind: product` in the configuration, validated against their annotations. Import torch inside functions to
keep configuration checks fast.
"""

import hashlib
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from runpy import run_path
from typing import Any, Literal, NamedTuple

from pydantic import create_model

from isoscope.base.code_closure import stripped
from isoscope.base.errors import PLUGIN_MODULE, InputError, plugin_line, said
from isoscope.base.metric import Metric as Metric
from isoscope.base.metric import checked
from isoscope.platform.config.base import Section
from isoscope.platform.config.penalty import Weighted


class Plugin(NamedTuple):
    """A registered factory, the type of its options, and its file."""

    name: str
    factory: Callable[..., Any]
    options: type[Section]
    file: Path
    metrics: tuple[Metric, ...] = ()
    """What it declares: a measure by its decorator, an objective by the class that its factory returns."""

    @property
    def title(self) -> str:
        """Name of the plugin in errors."""
        return f"plugin {self.name!r} ({self.file})"


FUSIONS: dict[str, Plugin] = {}
DATASETS: dict[str, Plugin] = {}
MEASURES: dict[str, Plugin] = {}
PENALTIES: dict[str, Plugin] = {}
OBJECTIVES: dict[str, Plugin] = {}
OBSERVERS: dict[str, Plugin] = {}
VIEWS: dict[str, Plugin] = {}
REGISTRIES = (FUSIONS, DATASETS, MEASURES, PENALTIES, OBJECTIVES, OBSERVERS, VIEWS)


def _register(
    registry: dict[str, Plugin],
    name: str,
    given: frozenset[str],
    base: type[Section] = Section,
    metrics: Sequence[Metric] = (),
) -> Callable[..., Callable[..., Any]]:
    def decorate(factory: Callable[..., Any]) -> Callable[..., Any]:
        fields: dict[str, Any] = {"kind": (Literal[name], ...)}
        signature = inspect.signature(factory, eval_str=True)
        for parameter in signature.parameters.values():
            if parameter.name in given:
                continue
            if parameter.annotation is parameter.empty or parameter.kind in (
                parameter.VAR_POSITIONAL,
                parameter.VAR_KEYWORD,
            ):
                raise InputError(f"plugin {name!r}: parameter {parameter.name!r} needs a type, as in 'scale: float'")
            if parameter.name in base.model_fields:
                raise InputError(
                    f"plugin {name!r}: {parameter.name!r} is a built-in option of every penalty; rename it"
                )
            default = ... if parameter.default is parameter.empty else parameter.default
            fields[parameter.name] = (parameter.annotation, default)
        options = create_model(f"{name.title()}Options", __base__=base, __doc__=factory.__doc__, **fields)
        declared = metrics or getattr(signature.return_annotation, "metrics", ())
        found = checked(declared, f"plugin {name!r}") if declared else ()
        registry[name] = Plugin(name, factory, options, Path(inspect.getfile(factory)), found)
        return factory

    return decorate


def fusion(name: str) -> Callable[..., Callable[..., Any]]:
    """Register a factory `(hidden_size, **options) -> Module` as the fusion `name`.

    The module's `forward(word, position, token_type, mask)` takes three tensors (batch, sequence, hidden), already
    zero at masked positions, and the mask (batch, sequence, 1); it returns one of the same shape.
    """
    return _register(FUSIONS, name, frozenset({"hidden_size"}))


def dataset(name: str) -> Callable[..., Callable[..., Any]]:
    """Register a factory `(**options) -> {"train": rows, "validation": rows, "test": rows}` as the data source `name`.

    A row is `{"sentence": str, "label": int}` or `{"sentence1": str, "sentence2": str, "label": int}`.
    """
    return _register(DATASETS, name, frozenset())


def measure(name: str, metrics: Sequence[Metric] = ()) -> Callable[..., Callable[..., Any]]:
    """Register a function `(cell) -> {metric: number}` as the measure `name`; `metrics`: what its numbers mean.

    `cell.points` is a float64 array (points, dimensions): one layer of one snapshot. See `inside.cloud.Cell` for its
    other fields.
    """
    return _register(MEASURES, name, frozenset({"cell"}), metrics=metrics)


def penalty(name: str) -> Callable[..., Callable[..., Any]]:
    """Register a factory `(**options) -> callable` as the penalty `name`; `weight`, `warmup` and `points` are added.

    The callable takes points (n, d) and their labels (n). It returns a scalar tensor, or a named tuple: its first field
    is a scalar tensor, and its other fields (scalars, or one number per class) become metrics of the run.
    """
    return _register(PENALTIES, name, frozenset(), Weighted)


def objective(name: str) -> Callable[..., Callable[..., Any]]:
    """Register a factory `(task, **options) -> Objective` as the objective `name`.

    `task` is an `isoscope.objectives.Task`; see `isoscope.objectives.Objective` for the interface of the result. The
    factory's return annotation names the class of the result, whose `metrics` are then known before it is built.
    """
    return _register(OBJECTIVES, name, frozenset({"task"}))


def observer(name: str) -> Callable[..., Callable[..., Any]]:
    """Register a factory `(**options) -> Observer` as the observer `name`, for the section `observers`.

    See `isoscope.training.observers.Observer` for the interface.
    """
    return _register(OBSERVERS, name, frozenset())


def view(name: str) -> Callable[..., Callable[..., Any]]:
    """Register a factory `() -> isoscope.studies.view.View` as the view `name`: a figure of every study's report.

    It is drawn if a study has the tables that the view needs. Notebooks find it by its name.
    """
    return _register(VIEWS, name, frozenset())


def load(path: Path) -> None:
    """Run a plugin file, which registers its plugins.

    Raises `InputError` if the file is missing, fails or ends the program.
    """
    path = path.resolve()
    if not path.is_file():
        raise InputError(f"plugin {path}: no such file; correct `plugins` in params.yaml, or --plugin")
    if path.suffix != ".py":
        raise InputError(f"plugin {path}: expected a Python file ending in .py")
    if _loaded(path):
        return
    before = path.read_bytes()
    try:  # writes no __pycache__ beside the file, which would change a DVC dependency
        run_path(str(path), run_name=f"{PLUGIN_MODULE}{path.stem}")
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        raise InputError(f"plugin {plugin_line(error) or path}: {said(error)}") from error
    if path.read_bytes() != before:
        raise InputError(f"plugin {path}: has changed while it was loaded; run the same command again")
    _CODE[path] = _code(before.decode("utf-8"))


def _loaded(path: Path) -> bool:
    return any(plugin.file == path for registry in REGISTRIES for plugin in registry.values())


def digest(path: Path) -> str:
    """Return the sha256 of a plugin's code without comments and docstrings.

    Of a loaded file it is that of the code that runs: the file may have been edited since.
    """
    return (_CODE.get(path) if _loaded(path) else None) or _code(path.read_text("utf-8"))


_CODE: dict[Path, str] = {}
"""Digest of the code of each loaded file."""


def _code(source: str) -> str:
    return hashlib.sha256(stripped(source).encode()).hexdigest()
