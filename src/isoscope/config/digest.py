"""Run digest: a hash of everything that can change a run's numbers."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from isoscope.config.tree import flatten

# Device, threads and checkpoint interval are in the record, not in the digest: they do not define the run.
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
    """Return the sha256 (hex) of stage name, resolved sections, seed, input hashes by role, code version and plugins.

    Names of studies, arms and files are excluded: the same work under another name is the same run.
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
