"""Write a model's Python files into its folder: transformers then loads it without isoscope (`trust_remote_code`)."""

import ast
from pathlib import Path
from typing import Any

from isoscope.base.code_closure import PACKAGE
from isoscope.base.registry import FUSIONS
from isoscope.models.embeddings import build_fusion

_HEADER = "# A copy of {module}, written by `isoscope export`. SPDX-License-Identifier: Apache-2.0\n"
_REGISTRY = f'''"""The fusions of this folder by kind; there are none from plugin files."""

from pathlib import Path

from .base_entry import Entry

FUSIONS = {{}}


def fusion(kind, **more):
    def add(factory):
        FUSIONS[kind] = Entry(kind, factory, Path(__file__), True, {FUSIONS.given}, **more)
        return factory

    return add
'''
_STUBS = dict.fromkeys(("isoscope.base.registry", "isoscope.plugins"), "registry")
"""Modules in whose place `_REGISTRY` is written, to a file of this name."""
# In the package a composite configuration finds the types of its parts in the registry of transformers. A copy has
# them written down: registered twice, by two exports or by an export and isoscope, they would be an error.
_PARTS = """

from transformers.configuration_utils import SubConfigSpec
from .families import FusionBertConfig

{composite}.sub_configs_defaults = {{
    "encoder": SubConfigSpec(config_class={encoder}),
    "decoder": SubConfigSpec(config_class=FusionBertConfig),
}}
"""
_COMPOSITE = {
    "isoscope.models.translation": _PARTS.format(composite="FusionTranslationConfig", encoder="FusionBertConfig"),
    "isoscope.models.hybrid": _PARTS.format(composite="HybridConfig", encoder="MappedBertConfig"),
}


def write_code(kind: type[Any], auto_classes: dict[str, type[Any]], folder: Path) -> dict[str, str]:
    """Write the files that the class `kind` needs to `folder`; return config.json's `auto_map` of `auto_classes`.

    A file is a copy of the installed one with its imports made relative, and without registrations in transformers.
    `auto_classes`: name of an Auto class → class, in the module of `kind` or in a module that it imports.
    """
    todo, done = [kind.__module__], set()
    while todo:
        module = todo.pop()
        if module in done:
            continue
        done.add(module)
        if module in _STUBS:
            name, text, needs = _STUBS[module], _REGISTRY, ["isoscope.base.entry"]
        else:
            name, (text, needs) = flat_name(module), rewritten(module)
        todo += needs
        (folder / f"{name}.py").write_text(text, "utf-8")
    return {name: f"{flat_name(one.__module__)}.{one.__qualname__}" for name, one in auto_classes.items()}


def flat_name(module: str) -> str:
    """Return the name of a module's copy: `fused` for `isoscope.models.fused`, `fusions_conv2d` in other packages."""
    if module in _STUBS:
        return _STUBS[module]
    return module.removeprefix("isoscope.").removeprefix("models.").replace(".", "_")


def rewritten(module: str) -> tuple[str, list[str]]:
    """Return the text of a module's copy, and the modules of isoscope that it imports."""
    source = _file(module).read_text("utf-8")
    lines, needs = source.splitlines(keepends=True), []
    for node in sorted(_statements(source), key=lambda node: node.lineno, reverse=True):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "isoscope":
            within = f"{node.module}.{node.names[0].name}"  # a module of a package, else a name in a module
            needs.append(within if _file(within).is_file() else str(node.module))
            line = lines[node.lineno - 1]
            lines[node.lineno - 1] = line.replace(f"from {node.module} ", f"from .{flat_name(needs[-1])} ", 1)
        elif isinstance(node, ast.Expr | ast.For) and ".register(" in ast.unparse(node):
            lines[node.lineno - 1 : node.end_lineno] = []
    text = _HEADER.format(module=module) + "".join(lines).rstrip("\n") + "\n" + _COMPOSITE.get(module, "")
    if module == build_fusion.__module__:  # a copy has no names to load by: it imports every kind
        needs += FUSIONS.modules.values()
        text += "".join(f"\nfrom .{flat_name(one)} import {kind}" for kind, one in FUSIONS.modules.items()) + "\n"
    return text, needs


def _statements(source: str) -> list[Any]:
    """Return the statements of a module, and the imports inside of its functions."""
    tree = ast.parse(source)
    return [*tree.body, *(node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.col_offset)]


def _file(module: str) -> Path:
    return PACKAGE.joinpath(*module.split(".")[1:]).with_suffix(".py")
