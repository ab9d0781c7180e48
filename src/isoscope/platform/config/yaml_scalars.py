"""Write scalars that have one value for readers of YAML 1.1 (such as PyYAML) and of YAML 1.2 (ruamel, DVC)."""

import re
from typing import Any

_WORD = re.compile(r"y|n|yes|no|on|off", re.IGNORECASE)
_BASE_SIXTY = re.compile(r"[-+]?\d[\d_]*(:[0-5]?\d)+(\.[\d_]*)?")


def add_scalars(representer: Any) -> None:
    """Make a representer class of ruamel write floats with a point, and quote text that YAML 1.1 reads otherwise.

    In YAML 1.1 `1e-08` is text, `no` is false and `1:30` is 90.
    """
    representer.add_representer(float, represent_float)
    representer.add_representer(str, _text)


def represent_float(to: Any, value: float) -> Any:
    """Return the node of a float: `1.0e-08`, which in YAML 1.1 would be text without the point."""
    node = to.represent_float(value)
    node.value = re.sub(r"^(-?\d+)e", r"\1.0e", node.value)
    return node


def _text(to: Any, value: str) -> Any:
    node = to.represent_str(value)
    if _WORD.fullmatch(value) or _BASE_SIXTY.fullmatch(value):
        node.style = "'"
    return node
