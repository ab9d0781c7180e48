"""Measures of clouds of representations: pure functions of arrays, no configuration, no files.

A cloud is `points` `[n, d]`, one representation a row. Arithmetic is in float64 whatever comes in. The package itself
can be called: `isoscope.geometry(model, texts)` is `isoscope.notebook.geometry`.
"""

import sys
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    """A package that is also the function people look for under its name."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        from importlib import import_module  # a floor above this one, which nothing here needs

        return import_module("isoscope.notebook").geometry(*arguments, **options)


sys.modules[__name__].__class__ = _Callable
