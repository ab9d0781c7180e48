"""Profiles: overlays that are written into params.yaml, so that DVC and users see the same values."""

import difflib
import io
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.representer import RoundTripRepresenter

from isoscope.base.atomic_files import write_text
from isoscope.base.errors import InputError
from isoscope.base.paths import PARAMS, PROFILES, checked_name
from isoscope.platform.config.across_studies import check_all
from isoscope.platform.config.explain import find
from isoscope.platform.config.load import Configuration
from isoscope.platform.config.searching import Search
from isoscope.platform.config.tree import Tree, entries, merge, parse_yaml, read_yaml, represent_float

_KEPT = Path(".isoscope/params.before-reset.yaml")


def known(folder: Path) -> dict[str, Path]:
    """Return the profiles of a project by name, as paths in it: in `profiles/` and in folders below it."""
    return {file.stem: file.relative_to(folder) for file in sorted((folder / PROFILES).rglob("*.yaml"))}


def apply(folder: Path, name: str) -> str:
    """Merge the profile `name` into params.yaml, keep its comments, and return a unified diff.

    Raises `InputError` if params.yaml differs from its committed state, or the result is invalid.
    """
    file = find(name, known(folder), f"{PROFILES / checked_name('profile', name)}.yaml: no such file")
    overlay = read_yaml(folder, file)
    before = (folder / PARAMS).read_text("utf-8", "surrogateescape")
    if before != committed(folder):
        raise InputError(
            f"{PARAMS}: has changes that are not committed; commit them, or drop them with: isoscope profile --reset"
        )
    if lacks_its_base(parse_yaml(before, str(PARAMS)), overlay):
        raise InputError(f"{file}: search: incomplete, and {PARAMS} has search: null; define it there first")
    after = laid_over(before, overlay)
    check_all(Configuration(folder, raw=parse_yaml(after, str(PARAMS))))
    write_text(folder / PARAMS, after, "params")
    return _difference(before, after)


def lacks_its_base(base: Mapping[str, Any], overlay: Mapping[str, Any]) -> bool:
    """Return whether a profile sets only a part of `search` while the base has `search: null`."""
    given = overlay.get("search")
    return base.get("search") is None and isinstance(given, Mapping) and not Search.model_fields.keys() <= given.keys()


def restore(folder: Path) -> str:
    """Restore the committed params.yaml, keep the replaced file in `.isoscope/`, and return the difference."""
    before, after = (folder / PARAMS).read_text("utf-8", "surrogateescape"), committed(folder)
    if before == after:
        return ""
    (folder / _KEPT).parent.mkdir(exist_ok=True)
    write_text(folder / _KEPT, before, "params")
    write_text(folder / PARAMS, after, "params")
    return _difference(before, after)


class _Written(RoundTripRepresenter):
    """Writes new numbers for readers of YAML 1.1, too; DVC leaves them as they are."""


_Written.add_representer(float, represent_float)


def laid_over(text: str, overlay: Tree) -> str:
    """Return YAML text with an overlay merged in; comments and order stay, a node with `kind` is replaced.

    A study, or a name of the search space, that is null in the overlay is removed.
    """

    def lay(tree: Any) -> None:
        merge(tree, overlay)
        drop(tree, overlay)

    return edited(text, lay)


def edited(text: str, change: Callable[[Any], None]) -> str:
    """Return YAML text after `change` of its tree, which has ruamel's types; comments and order stay.

    The text has the form that DVC writes: `dvc exp run -S` then changes nothing but the value that it sets.
    """
    return as_dvc_writes(changed_by(_as_dvc(), text, change))


def as_dvc_writes(text: str) -> str:
    """Return YAML text as `dvc exp run -S` writes it; a value that moves to another line may move once more."""
    for _ in range(4):
        before, text = text, changed_by(_as_dvc(), text, _replace_lists)
        if text == before:
            break
    return text


def changed_by(yaml: YAML, text: str, change: Callable[[Any], None]) -> str:
    """Return YAML text after `change` of its tree, in the layout of `yaml`."""
    tree = yaml.load(text)
    change(tree)
    stream = io.StringIO()
    yaml.dump(tree, stream)
    return stream.getvalue()


def _as_dvc() -> YAML:
    yaml = YAML()
    yaml.Representer = _Written
    yaml.default_flow_style = False
    return yaml


def _replace_lists(tree: Any) -> None:
    """Replace each list by a new list, as DVC does, which puts every item into a line."""
    for key, value in tree.items():
        if isinstance(value, Mapping):
            _replace_lists(value)
        elif isinstance(value, list):
            tree[key] = _plain(value)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def drop(tree: Tree, overlay: Tree) -> None:
    """Remove studies, comparisons and names of the search space that are null in the overlay: DVC makes no stage."""
    spaces = [entries(entries(one, "search"), "space") for one in (tree, overlay)]
    named = ([entries(one, section) for one in (tree, overlay)] for section in ("studies", "comparisons"))
    for base, given in (*named, spaces):
        for name in [name for name, value in given.items() if value is None]:
            del base[name]
        if given and not base and isinstance(base, CommentedMap):
            base.fa.set_flow_style()  # `{}` in the line of its key


def committed(folder: Path) -> str:
    """Return the committed params.yaml of a project. Raises `InputError` if git has none."""
    command = ["git", "show", f"HEAD:./{PARAMS}"]
    form = {"text": True, "encoding": "utf-8", "errors": "surrogateescape"}
    shown = subprocess.run(command, cwd=folder, capture_output=True, check=False, **form)  # type: ignore[call-overload]
    if shown.returncode:
        raise InputError(
            f"{PARAMS}: no committed state in git to compare with ({shown.stderr.strip().splitlines()[0]})"
        )
    return shown.stdout


def _difference(before: str, after: str) -> str:
    sides = before.splitlines(keepends=True), after.splitlines(keepends=True)
    lines = difflib.unified_diff(*sides, f"{PARAMS} (before)", f"{PARAMS} (now)")
    return "".join(lines).encode("utf-8", "replace").decode("utf-8")  # of bytes that are no text, a question mark
