"""Write a model's Python files into its folder: transformers then loads it without isoscope (`trust_remote_code`)."""

import ast
from pathlib import Path
from typing import Any

from isoscope.base.code_closure import PACKAGE

_HEADER = "# A copy of {module}, written by `isoscope export`. SPDX-License-Identifier: Apache-2.0\n"
_STUBS = {
    "isoscope.plugins": (
        "no_plugins",
        '"""The registry of fusions from plugin files: an exported model has none."""\n\n'
        "from types import SimpleNamespace\nfrom typing import Any\n\n"
        "plugins: Any = SimpleNamespace(FUSIONS={})\n",
    )
}
"""Modules that are not copied, with the name and text of the file in their place."""
# In the package a composite configuration finds the types of its parts in the registry of transformers. A copy has
# them written down: registered twice, by two exports or by an export and isoscope, they would be an error.
_PARTS = """

from transformers.configuration_utils import SubConfigSpec
from .bert import FusionBertConfig

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
            name, text = _STUBS[module]
        else:
            name, (text, needs) = flat_name(module), rewritten(module)
            todo += needs
        (folder / f"{name}.py").write_text(text, "utf-8")
    return {name: f"{flat_name(one.__module__)}.{one.__qualname__}" for name, one in auto_classes.items()}


def flat_name(module: str) -> str:
    """Return the name of a module's copy: `bert` for `isoscope.models.bert`, `config_fusion` for other packages."""
    if module in _STUBS:
        return _STUBS[module][0]
    return module.removeprefix("isoscope.").removeprefix("models.").replace(".", "_")


def rewritten(module: str) -> tuple[str, list[str]]:
    """Return the text of a module's copy, and the modules of isoscope that it imports."""
    source = _file(module).read_text("utf-8")
    lines, needs = source.splitlines(keepends=True), []
    for node in reversed(ast.parse(source).body):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "isoscope":
            within = f"{node.module}.{node.names[0].name}"  # a module of a package, else a name in a module
            needs.append(within if _file(within).is_file() else str(node.module))
            line = lines[node.lineno - 1]
            lines[node.lineno - 1] = line.replace(f"from {node.module} ", f"from .{flat_name(needs[-1])} ", 1)
        elif isinstance(node, ast.Expr | ast.For) and ".register(" in ast.unparse(node):
            lines[node.lineno - 1 : node.end_lineno] = []
    return _HEADER.format(module=module) + "".join(lines).rstrip("\n") + "\n" + _COMPOSITE.get(module, ""), needs


def _file(module: str) -> Path:
    return PACKAGE.joinpath(*module.split(".")[1:]).with_suffix(".py")
