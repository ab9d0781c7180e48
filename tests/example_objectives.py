"""The objectives of docs/examples, loaded as a run loads them."""

from pathlib import Path
from types import SimpleNamespace

from isoscope import plugins

EXAMPLES = Path(__file__).parents[1] / "docs/examples"


def example(name: str) -> SimpleNamespace:
    """Return a namespace with the objective's factory, as a built-in module has it; nothing stays registered."""
    before = dict(plugins.OBJECTIVES.own)
    plugins.load(EXAMPLES / f"{name}.py")
    found = plugins.OBJECTIVES[name].factory
    plugins.OBJECTIVES.own.clear()
    plugins.OBJECTIVES.own.update(before)
    return SimpleNamespace(objective=found)
