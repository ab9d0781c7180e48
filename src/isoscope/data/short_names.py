"""Short names for checkpoints: of a project's runs by study, arm and seed; of others from paths that differ."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import PurePosixPath
from typing import NamedTuple

LONGEST = 36
"""Maximum length of a short name: it must fit into a figure's title or legend."""
GAP = "…"


class RunCheckpoint(NamedTuple):
    """A checkpoint of a project's run: `cell` is `study/arm/seed-0`, `kept` its folder, such as `epoch-3`; `project`:
    folder of the project.
    """

    cell: str
    kept: str
    project: str


def checkpoint_names(paths: Sequence[str], trained: Sequence[RunCheckpoint | None]) -> list[str]:
    """Return a distinct name for each checkpoint, at most `LONGEST` characters.

    A project's checkpoint has the name of its cell, and its epoch or update if several of the cell are given; with
    cells of several projects, the project's name, too. `trained`: None for other checkpoints, which have the names of
    `short_names`. Raises `ValueError` if a path repeats.
    """
    own = [one for one in trained if one is not None]
    projects = sorted({one.project for one in own})
    called = dict(zip(projects, short_names(projects), strict=True))
    places = Counter((one.project, one.cell) for one in own)
    whole = [path for path, one in zip(paths, trained, strict=True) if one is None]
    others = dict(zip(whole, short_names(whole), strict=True))
    names = []
    for path, one in zip(paths, trained, strict=True):
        if one is None:
            names.append(others[path])
            continue
        before = f"{called[one.project]}/" * (len(projects) > 1)
        names.append(before + one.cell + f"/{one.kept}" * (places[one.project, one.cell] > 1))
    fitted = _fitted(names)
    return fitted if len(set(fitted)) == len(fitted) else short_names(paths)


def short_names(paths: Sequence[str]) -> list[str]:
    """Return a distinct name for each path: the parts in which the paths differ, at most `LONGEST` characters.

    `runs/a/seed-0/model` and `runs/b/seed-0/model` become `a` and `b`; a path with a unique last part becomes that
    part. Omitted parts between two others become `…`. The names do not depend on the order of the paths. Raises
    `ValueError` if a path repeats.
    """
    if len(set(paths)) < len(paths):
        raise ValueError("paths: a path repeats")
    parts = [PurePosixPath(path).parts for path in paths]
    places = sorted(_telling(parts, 1)) or [1]
    for chosen in (places, sorted({1, *places}), range(1, max(map(len, parts), default=1) + 1)):
        names = [_joined(own, chosen) for own in parts]
        if all(names) and len(set(names)) == len(names):
            return _fitted(names)
    return _fitted(list(paths))


def _telling(parts: Sequence[tuple[str, ...]], first: int) -> set[int]:
    """Return the places, counted from the end, that distinguish the paths: the last place where they differ, and
    recursively the places for groups of paths that agree there.
    """
    if len(parts) < 2:
        return set()
    for place in range(first, max(map(len, parts)) + 1):
        found = [own[-place] if place <= len(own) else "" for own in parts]
        if len(set(found)) > 1:
            pairs = sorted(zip(found, parts, strict=True))
            groups = ([own for _, own in group] for _, group in groupby(pairs, key=lambda pair: pair[0]))
            return {place}.union(*(_telling(group, place + 1) for group in groups))
    return set()


def _joined(parts: Sequence[str], places: Iterable[int]) -> str:
    """Join the parts at these places, in the path's order, with `…` for omitted parts between them."""
    there = sorted((place for place in places if place <= len(parts)), reverse=True)
    found: list[str] = []
    for number, place in enumerate(there):
        if number and there[number - 1] - place > 1:
            found.append(GAP)
        found.append(parts[-place])
    return "/".join(found).replace("//", "/")


def _fitted(names: Sequence[str]) -> list[str]:
    """Shorten long names in the middle; number them in alphabetical order if shortening makes them equal."""
    cut = {name: _cut(name, LONGEST) for name in names}
    number = 0
    taken = {short for name, short in cut.items() if short == name}
    for name in sorted(name for name, short in cut.items() if short != name):
        while cut[name] in taken:
            number += 1
            end = f" ({number})"
            cut[name] = _cut(name, LONGEST - len(end)) + end
        taken.add(cut[name])
    return [cut[name] for name in names]


def _cut(text: str, letters: int) -> str:
    """Return `text`, with … in the middle if it has more than `letters` characters."""
    if len(text) <= letters:
        return text
    kept = letters - len(GAP)
    return f"{text[: kept - kept // 2]}{GAP}{text[len(text) - kept // 2 :]}"
