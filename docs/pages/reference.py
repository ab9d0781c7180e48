"""Write the reference pages as Markdown: commands from Typer, parameters from the schema, Python from docstrings."""

from collections.abc import Iterator
from importlib import import_module
from inspect import isclass, isfunction
from operator import attrgetter
from typing import Any, get_type_hints

from typer import Context
from typer.cli import get_docs_for_click
from typer.main import get_command

from isoscope.platform.cli import app
from isoscope.platform.config.declared import known
from isoscope.platform.config.kinds import json_schema

Node = dict[str, Any]

PUBLIC: dict[str, tuple[str, ...]] = {
    "isoscope.notebook": ("load", "geometry", "spaces", "StudyTables", "StudyView"),
    "isoscope.geometry": (),
    "isoscope.penalties": (),
    "isoscope.models.published": ("load", "classifier"),
    "isoscope.models.fused": ("FusionSettings",),
    "isoscope.objectives": ("Objective", "Task", "Place", "Forward", "Scored", "Tally"),
    "isoscope.training.observers": ("Observer", "Context", "FusionMoved"),
    "isoscope.training.observers.watch": ("Watch",),
    "isoscope.training.observers.lca": ("Allocation",),
    "isoscope.training.observers.trainer_callback": ("ObserverCallback",),
    "isoscope.plugins": (
        "fusion",
        "penalty",
        "objective",
        "observer",
        "measure",
        "view",
        "dataset",
        "Metric",
        "View",
        "load",
    ),
    "isoscope.platform.figures.line_form": ("Curves", "Profile"),
    "isoscope.platform.figures.matrix_form": ("Matrix",),
    "isoscope.platform.figures.interval_form": ("Intervals",),
    "isoscope.platform.figures.scatter_form": ("Scatter",),
    "isoscope.platform.figures.text_form": ("Texts",),
    "isoscope.platform.statistics.paired": ("judge", "Verdict", "paired_t", "holm", "two_way_interval"),
    "isoscope.studies.dynamics.hurting": ("hurting", "Hurting"),
    "isoscope.base.errors": ("InputError", "RunError"),
}
"""Module → its public names, or () for its `__all__`."""
SHOWN = {"isoscope.notebook": "isoscope"}
"""Module → the package to import its names from."""
MORE = {"isoscope.geometry": ("kernels.fourier", "planes.planes")}
"""Public functions that `__all__` cannot list, because they share the name of a module."""


def command_line() -> str:
    """Return the page of all commands with their arguments and options."""
    command = get_command(app)
    return get_docs_for_click(obj=command, ctx=Context(command), name="isoscope", title="Command line")


def parameters() -> str:
    """Return the page of all parameters: a table for each section and for each kind of a choice."""
    schema = json_schema()
    lines = [
        "# Parameters",
        "Every number is in `params.yaml` or in an overlay `variants/<axis>/<value>.yaml`, under the same name. "
        "`-S NAME=VALUE` sets it for one command.",
    ]
    for name, node in schema["properties"].items():
        lines += [f"## {name}", *_tables(name, node, schema["$defs"])]
    return "\n\n".join(lines) + "\n"


def metrics() -> str:
    """Return the page of metrics: the name in files and MLflow, and its title in figures and reports."""
    lines = [
        "# Metrics",
        "A metric's name in tables, records and MLflow, and its title in figures and in the report. A name may begin "
        "with where it was measured: `train/`, `validation/`, `test/`, or `step/` for a batch.",
        "| name | title |\n|---|---|\n" + "\n".join(f"| `{name}` | {one.label} |" for name, one in known().items()),
    ]
    return "\n\n".join(lines) + "\n"


def _tables(name: str, node: Node, known: dict[str, Node]) -> Iterator[str]:
    """Yield the text of a node: its description, a table of its fields, then the kinds of each choice below it."""
    rows, choices = ["| parameter | value | meaning |\n|---|---|---|"], dict[str, Node]()
    _collect(name, node, known, rows, choices)
    if text := known.get(_referred(node), {}).get("description"):
        yield text
    if rows[1:]:
        yield "\n".join(rows)
    for title, kind in choices.items():
        yield f"### `{title}`"
        yield from _tables(title.split(": ")[0], kind, known)


def _referred(node: Node) -> str:
    return str(node.get("$ref", "")).rpartition("/")[2]


def _collect(name: str, node: Node, known: dict[str, Node], rows: list[str], choices: dict[str, Node]) -> None:
    """Add a row per parameter below a node; a choice of kinds becomes a row and an entry of `choices` per kind."""
    options = [one for one in node.get("anyOf", [node]) if one.get("type") != "null"]
    null = " or null" if len(options) < len(node.get("anyOf", [node])) else ""
    about = " ".join(str(node.get("description", "")).split()).replace("|", "\\|")
    for one in options:
        kinds = one.get("discriminator", {}).get("mapping")
        inner = known[_referred(one)] if "$ref" in one else one
        if kinds:
            choices.update({f"{name}: {kind}": {"$ref": reference} for kind, reference in kinds.items()})
            rows.append(f"| `{name}.kind` | {_words(kinds)}{null} | {about} |")
        elif "properties" in inner:
            if about or null:
                rows.append(f"| `{name}` | section{null} | {about} |")
            for field, below in inner["properties"].items():
                if "const" not in below:
                    _collect(f"{name}.{field}", below, known, rows, choices)
        elif "patternProperties" in inner or isinstance(inner.get("additionalProperties"), dict):
            (below,) = inner.get("patternProperties", {"": inner.get("additionalProperties")}).values()
            if about:
                rows.append(f"| `{name}` | by name | {about} |")
            _collect(f"{name}.<name>", below, known, rows, choices)
        else:
            rows.append(f"| `{name}` | {_value(inner)}{null} | {about} |")


def _value(node: Node) -> str:
    """Return the type and the bounds of a value."""
    if "enum" in node:
        return _words(node["enum"])
    if "const" in node:
        return _words([node["const"]])
    if "anyOf" in node:
        return " or ".join(map(_value, node["anyOf"]))
    if node.get("type") == "array":
        parts = node.get("prefixItems")
        return "list of " + (", ".join(map(_value, parts)) if parts else _value(node.get("items", {})))
    bounds = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    limits = [f"{sign} {_number(node[bound])}" for bound, sign in bounds.items() if bound in node]
    return ", ".join([str(node.get("type", "any")), *limits])


def _number(value: float) -> str:
    return f"{value:,g}" if value % 1 or value > 2**53 else f"{value:,.0f}"


def _words(values: Any) -> str:
    return " \\| ".join(f"`{value}`" for value in values)


def python() -> str:
    """Return the page of the public Python names, for mkdocstrings to fill in from the docstrings."""
    parts = ["# Python", "What to import, by module. Other modules, and names with an underscore, may change."]
    for module in PUBLIC:
        shown = SHOWN.get(module, module)
        parts += [f"## {shown}", str(import_module(module).__doc__)]
        for name, home in public(module).items():
            parts.append(f'<a id="{shown}.{name}"></a>\n\n::: {home}')
    return "\n\n".join(parts) + "\n"


def public(module: str) -> dict[str, str]:
    """Return the public names of a module → their full names where they are defined.

    A function is followed by the class of the named result that it returns.
    """
    package, found = import_module(module), dict[str, str]()
    for name in (*(PUBLIC[module] or package.__all__), *MORE.get(module, ())):
        value = attrgetter(name)(package)
        found[name] = f"{value.__module__}.{value.__qualname__}"
        result = get_type_hints(value).get("return") if isfunction(value) else None
        if isclass(result) and result.__module__.startswith("isoscope."):
            found.setdefault(result.__name__, f"{result.__module__}.{result.__qualname__}")
    return found
