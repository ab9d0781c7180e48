"""Kinds by name. Built-in kinds and those of plugin files enter by one door: the decorators of `isoscope.plugins`.

The module of a built-in kind is imported when the kind is read (`isoscope.base.built_in` names it). Import a registry
by its name, `from isoscope.base.registry import FUSIONS`: so the code version of a run knows what it may load.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from isoscope.base import built_in
from isoscope.base.entry import Entry
from isoscope.base.errors import InputError
from isoscope.base.metric import Metric, checked

Factory = TypeVar("Factory", bound=Callable[..., Any])


class Registry(Mapping[str, Entry]):
    """The kinds of one sort by name: `modules` of the built-in kinds first, then `own`, those of plugins.

    `given`: parameters of a factory that are not options.
    """

    def __init__(self, modules: Mapping[str, str] | None = None, *given: str) -> None:
        self.modules, self.given = modules or {}, given
        self.own: dict[str, Entry] = {}
        self._loaded: dict[str, Entry] = {}

    def __getitem__(self, kind: str) -> Entry:
        if kind not in self.modules:
            return self.own[kind]
        import_module(self.modules[kind])
        return self._loaded[kind]

    def __contains__(self, kind: object) -> bool:
        return kind in self.modules or kind in self.own

    def __iter__(self) -> Iterator[str]:
        return iter((*self.modules, *self.own))

    def __len__(self) -> int:
        return len(self.modules) + len(self.own)

    def register(self, kind: str, metrics: Sequence[Metric] = (), **more: Any) -> Callable[[Factory], Factory]:
        """Return the decorator of the factory of a kind; `more`: fields of its `Entry`.

        `metrics`: what it declares; default: those of its class, or of the class that its return annotation names.
        """

        def decorate(factory: Factory) -> Factory:
            known, file = self.modules.get(kind), Path(inspect.getfile(factory))
            if known not in (None, factory.__module__):
                raise InputError(f"plugin {file}: {kind!r} is a built-in kind; give it another name")
            entries = self._loaded if known else self.own
            earlier = entries[kind].file if kind in entries else file
            if earlier != file and earlier.is_file() and file.is_file():  # a notebook's cell is no file
                raise InputError(f"plugin {file}: {kind!r} is also in {earlier}; give one of them another name")
            declared = metrics or _metrics(factory)
            found = checked(declared, f"plugin {kind!r}") if declared else ()
            entries[kind] = Entry(kind, factory, file, built_in=bool(known), given=self.given, metrics=found, **more)
            return factory

        return decorate


def _metrics(factory: Callable[..., Any]) -> Any:
    made = factory if inspect.isclass(factory) else inspect.signature(factory, eval_str=True).return_annotation
    return getattr(made, "metrics", ())


FUSIONS = Registry(built_in.FUSIONS, "hidden_size", "causal", "init_std")
OBJECTIVES = Registry(built_in.OBJECTIVES, "task")
PENALTIES = Registry(built_in.PENALTIES, "classes")
OBSERVERS = Registry(built_in.OBSERVERS)
STARTS = Registry(built_in.STARTS)
DATASETS = Registry()
MEASURES = Registry(built_in.MEASURES, "cell")
VIEWS = Registry()
