"""What a search is: everything that decides what a trial of it is worth."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from isoscope.config.digest import NOT_IN_DIGEST
from isoscope.config.search import Search
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
    """A search by what its trials are measured by: space, objectives, seeds, all that is not searched, data, code.

    Names, the budget, and who proposes and ends trials are no part of it: a study may go on with others. `fixed`: the
    default arm, resolved; `overlays`: those that the space chooses from; `plugins`: file → sha256 of its code.
    """
    parts = {name: value for name, value in search.model_dump(mode="json").items() if name not in _NOT_OF_IT}
    parts["objectives"] = list(parts["objectives"].items())  # a study keeps values by place
    numbers = {name: value for name, value in flatten(fixed).items() if name not in NOT_IN_DIGEST}
    whole = {**parts, "default": numbers, "overlays": overlays, "inputs": inputs, "code": code}
    whole |= {"plugins": dict(plugins)} if plugins else {}
    return json.loads(json.dumps(whole))


def digest(of: Mapping[str, Any], *, name: str, trial: int | None = None) -> str:
    """sha256 (hex) of a study, or of one of its trials."""
    text = json.dumps([of, name, trial], sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
