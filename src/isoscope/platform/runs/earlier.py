"""How a run differs from the last finished run of its study, arm and seed: why it trains from its first epoch."""

from isoscope.platform.config.tree import NOT_IN_DIGEST, changes, flatten
from isoscope.platform.runs.lines import Run, plugin_tags
from isoscope.platform.runs.record import identities
from isoscope.platform.runs.run import Run as OwnedRun
from isoscope.platform.runs.stored import finished

_SHOWN = 3
_LENGTH = ("training.epochs", "training.budget", "training.schedule")


def earlier_run(run: OwnedRun) -> str | None:
    """Say why a new run does not continue the last finished run of its names; None if there is none.

    Runs of a search are no such runs: they differ by their purpose.
    """
    names, plugins = run.identity.names, run.identity.plugins
    same = [one for one in identities(run.project.records) if {name: getattr(one, name) for name in names} == names]
    own = [one for one in same if not one.tags.keys() - plugin_tags(plugins).keys()]
    done = [one for one in own if one.digest != run.digest and finished(run.project, one.digest)]
    if run.tags or not done:
        return None
    last = max(done, key=lambda one: one.t)
    changed = _changes(run, last)
    more = f" and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else ""
    length = any(name.startswith(_LENGTH) for name in changed)
    why = "; the schedule of the learning rate covers the whole run" if length else ""
    starts = any(role.startswith("start_") for role in run.identity.inputs)
    reused = "the prepared data" + " and the runs that it starts from" * starts
    return (
        f"not a continuation of the finished run {last.digest[:12]}: {', '.join([*changed.values()][:_SHOWN])}{more}"
        f"{why}; it trains from epoch 1, and reuses {reused}"
    )


def _changes(run: OwnedRun, last: Run) -> dict[str, str]:
    """Return name → what has changed: parameters with both values, then inputs, then the code."""
    one = run.identity
    changed = changes(last.params, flatten(one.params))
    found = {name: text for name, text in changed.items() if name not in NOT_IN_DIGEST}
    inputs = sorted(name for name in one.input_paths if one.input_paths[name] != last.inputs.get(name))
    found |= {name: f"{name} has changed" for name in inputs}
    return found or {"code": "the code or a plugin has changed"}
