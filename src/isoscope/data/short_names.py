"""Short names for checkpoints, from long paths that differ in a few parts."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import PurePosixPath

LONGEST = 36
"""Maximum length of a short name: it must fit into a figure's title or legend."""
GAP = "…"


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
