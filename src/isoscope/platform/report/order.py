"""The order of studies on the page: a study that only serves another stands under it."""

from collections.abc import Mapping, Sequence

from isoscope.base.built_in import PLAIN
from isoscope.platform.results.study_tables import Tables


def serving(studies: Sequence[Tables], kinds: Mapping[str, str]) -> dict[str, str]:
    """Return study → the study that it serves: runs of the latter start from its runs, directly or by a third study.

    A study with a kind of its own asks its own question. `kinds`: study → its kind, if it has another than `arms`.
    """
    home = {run.digest: one.study for one in studies for run in one.runs if kinds.get(one.study, PLAIN) == PLAIN}
    uses = {
        home[start]: one.study
        for one in studies
        for run in one.runs
        for start in run.inputs.values()
        if home.get(start, one.study) != one.study
    }
    found = {}
    for name in uses:
        last = name
        for _ in uses:
            last = uses.get(last, last)
        if last not in uses:  # no circle
            found[name] = last
    return found


def in_order(studies: Sequence[Tables], serves: Mapping[str, str]) -> list[Tables]:
    """Return each study that asks a question, followed by the studies that serve it."""
    places = {one.study: place for place, one in enumerate(studies)}
    return sorted(studies, key=lambda one: (places[serves.get(one.study, one.study)], one.study in serves))
