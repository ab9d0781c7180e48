"""Further metrics of the library `evaluate`, by their names on the hub or by the paths of their modules."""

import sys
from collections.abc import Collection, Iterable
from contextlib import redirect_stdout
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from isoscope.base.errors import InputError, brief, said


class FurtherMetrics:
    """Modules of `evaluate`, called with references and predictions of all rows; returns their numbers by name.

    `asked`: names or paths. `key`: what names them, for errors. `taken`: names of other metrics; a number of such a
    name has the module's name or file name before it: `f1_f1`. `sets`: predictions are 0 or 1 by text and label
    `[N, L]`; modules then have the configuration `multilabel`. Raises `InputError` for a module that cannot be loaded.
    """

    def __init__(self, asked: Iterable[str], *, key: str, taken: Collection[str], sets: bool = False) -> None:
        self.modules = {one: _loaded(one, key, "multilabel" if sets else None) for one in asked}
        self.key, self.taken, self.sets = key, taken, sets

    def __call__(self, references: ArrayLike, predictions: ArrayLike) -> dict[str, float]:
        """Return every number that a module computes; raises `InputError` if it fails or computes none."""
        both = {"references": np.asarray(references), "predictions": np.asarray(predictions)}
        given = {name: (array.astype(int) if self.sets else array).tolist() for name, array in both.items()}
        found: dict[str, float] = {}
        broken = not (np.asarray(both["predictions"], np.float64) % 1 == 0).all()
        for asked, module in self.modules.items():
            where, features = f"{self.key} {asked}", getattr(module, "features", None)
            if broken and isinstance(features, dict) and "int" in str(features.get("predictions")):
                raise InputError(f"{where}: takes whole numbers, and these predictions are none; name another metric")
            try:
                with redirect_stdout(sys.stderr):
                    computed = module.compute(**given)
            except (Exception, SystemExit) as error:  # code of others
                raise InputError(f"{where}: cannot score these predictions: {said(error)}") from None
            named = computed if isinstance(computed, dict) else {}
            numbers = {str(name): float(one) for name, one in named.items() if isinstance(one, Real)}
            if not numbers:
                raise InputError(
                    f"{where}: returns {brief(computed)}; give a metric that returns numbers by name, such as "
                    "{'f1': 0.5}"
                )
            for name, value in numbers.items():
                own = f"{Path(asked).stem}_{name}" if name in {*self.taken, *found} else name
                if own in {*self.taken, *found}:
                    raise InputError(f"{where}: another metric has the name {own!r}, too; rename the file")
                found[own] = value
        return found


def _loaded(asked: str, key: str, configuration: str | None) -> Any:
    """Return a module of `evaluate`. Raises `InputError` if there is no such file, or no such name on the hub."""
    import evaluate  # loads pandas and requests, so only if a metric is asked for

    by_path = asked.endswith(".py") or Path(asked).exists()
    if by_path and not Path(asked).exists():
        raise InputError(f"{key} {asked}: no such file")
    try:
        return evaluate.load(asked, configuration, keep_in_memory=True)
    except (Exception, SystemExit) as error:
        if by_path:
            raise InputError(f"{key} {asked}: not a module of evaluate: {said(error)}") from None
        raise InputError(
            f"{key} {asked}: cannot be had from the hub (no connection, or no such name); give the path of a module of "
            "evaluate, such as ./mine.py"
        ) from None
