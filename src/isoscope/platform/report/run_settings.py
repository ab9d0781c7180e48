"""How the runs of a study were trained, from their records: settings that all share, and settings by arm."""

from collections.abc import Mapping, Sequence
from typing import Any

from isoscope.platform.outputs import Trained
from isoscope.platform.runs.lines import RunRecord

MAIN = {
    "model.encoder.checkpoint": "checkpoint",
    "model.encoder.family": "family",
    "model.encoder.layers": "layers",
    "model.encoder.hidden_size": "width",
    "model.encoder.heads": "heads",
    "training.epochs": "epochs",
    "training.batch_size": "examples per update",
    "training.learning_rate": "learning rate",
}
"""Settings that the heading names → what it calls them."""


def settings(runs: Sequence[Trained], records: Mapping[str, RunRecord]) -> dict[str, Any] | None:
    """Return the settings of a study's runs that have a record; None if none has.

    - `main`: the settings `MAIN` as text, where all runs share them.
    - `shared`: name → value, as text.
    - `arms`, `differ`: the arms, and name → a value per arm (a dash: the arm has no such setting).
    """
    known = {run.arm: record.run.params for run in runs if (record := records.get(run.digest)) and record.run}
    if not known:
        return None
    names = list(dict.fromkeys(name for params in known.values() for name in params))
    values = {name: [_text(params[name]) if name in params else "–" for params in known.values()] for name in names}
    shared = {name: texts[0] for name, texts in values.items() if len(set(texts)) == 1}
    main = [f"{called} {shared[name]}" for name, called in MAIN.items() if name in shared]
    differ = {name: texts for name, texts in values.items() if name not in shared}
    return {"main": ", ".join(main), "shared": shared, "arms": [*known], "differ": differ}


def _text(value: Any) -> str:
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
