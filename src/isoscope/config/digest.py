"""A run's identity: one hash over everything that can change its numbers."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from isoscope.config.tree import flatten

# Where a run is carried out and how often it saves its state stand in the record: they are no part of what it is.
NOT_IN_DIGEST = frozenset(
    {
        *("training.device", "training.threads", "training.checkpoint_every"),
        *("extraction.device", "extraction.threads", "measures.processes", "measures.threads"),
    }
)


def run_digest(
    *,
    stage: str,
    params: Mapping[str, Any],
    seed: int | None,
    inputs: Mapping[str, str],
    code: str,
    plugins: Mapping[str, str],
) -> str:
    """sha256 (hex) over a stage's name, resolved sections, seed, hashes of inputs by role, code version and plugins.

    Names of studies, arms and files are no part of it: the same work under another name is the same run.
    """
    numbers = {name: value for name, value in flatten(params).items() if name not in NOT_IN_DIGEST}
    identity = {
        "stage": stage,
        "params": numbers,
        "seed": seed,
        "inputs": dict(inputs),
        "code": code,
        "plugins": sorted(plugins.values()),
    }
    return hashlib.sha256(json.dumps(identity, sort_keys=True, allow_nan=False).encode()).hexdigest()
