"""Identity of a search: everything that determines the value of a trial."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from isoscope.config.digest import NOT_IN_DIGEST
from isoscope.config.searching import Search
from isoscope.config.tree import flatten

_NOT_OF_IT = ("name", "study", "budget", "retries", "sampler", "pruner")


def identity(
    search: Search,
    *,
    fixed: Mapping[str, Any],
    overlays: Mapping[str, Any],
    inputs: Mapping[str, str],
    code: str,
    plugins: Mapping[str, str],
) -> dict[str, Any]:
    """Everything that determines the value of a trial: space, objectives, seeds, fixed parameters, data, code.

    Name, budget, sampler and pruner are left out: they may change within a study. `fixed`: the default arm, resolved;
    `overlays`: overlay files named in the space; `plugins`: file → sha256 of its code.
    """
    parts = {name: value for name, value in search.model_dump(mode="json").items() if name not in _NOT_OF_IT}
    parts["objectives"] = list(parts["objectives"].items())  # Optuna stores values by position
    numbers = {name: value for name, value in flatten(fixed).items() if name not in NOT_IN_DIGEST}
    whole = {**parts, "default": numbers, "overlays": overlays, "inputs": inputs, "code": code}
    whole |= {"plugins": dict(plugins)} if plugins else {}
    return json.loads(json.dumps(whole))


def digest(of: Mapping[str, Any], *, name: str, trial: int | None = None) -> str:
    """sha256 (hex) of a study, or of a trial of it."""
    text = json.dumps([of, name, trial], sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
