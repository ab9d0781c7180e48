"""Studies that only serve others stand under the study that asks the question."""

from isoscope.platform.outputs import Trained
from isoscope.platform.report.page import in_order, serving
from isoscope.platform.results.study_tables import Tables


def study(name: str, *starts: str) -> Tables:
    """A study with a run whose digest is the study's name, and which starts from runs of these digests."""
    run = Trained(name, "arm", 0, "task", name, "code", {f"start {one}": one for one in ("data", *starts)}, {})
    return Tables(name, {}, [], [run], confidence=0.95, power=0.8, margin=0.01)


CHAIN = [study("dynamics"), study("half"), study("aligned", "half", "dynamics"), study("hybrid", "aligned"), study("z")]


def test_a_study_stands_under_the_last_study_that_starts_from_it() -> None:
    serves = serving(CHAIN, {"dynamics": "dynamics"})
    assert serves == {"half": "hybrid", "aligned": "hybrid"}, "dynamics asks a question of its own"
    assert [one.study for one in in_order(CHAIN, serves)] == ["dynamics", "hybrid", "half", "aligned", "z"]


def test_without_starts_and_in_a_circle_all_stand_alone() -> None:
    for studies in ([study("a"), study("b")], [study("a", "b"), study("b", "a")]):
        assert serving(studies, {}) == {}
        assert in_order(studies, {}) == studies
