"""Former module names import today's module, with a warning."""

import sys
import warnings
from importlib import import_module

import pytest

from isoscope import renamed

FORMER = sorted({*renamed.PACKAGES, *renamed.MODULES, "corpora.tokens", "analysis.trajectory", "tracking.record"})


@pytest.mark.parametrize("name", FORMER)
def test_a_former_name_gives_the_module_of_today_and_warns(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    today = f"isoscope.{renamed.present(name)}"
    expected = import_module(today)
    spec = expected.__spec__
    for one in [one for one in sys.modules if one.startswith(tuple(f"isoscope.{old}" for old in renamed.PACKAGES))]:
        monkeypatch.delitem(sys.modules, one)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        found = import_module(f"isoscope.{name}")
    assert f"isoscope.{name} is now {today}; version 0.2 removes the old name" in [str(one.message) for one in warned]
    assert found is expected
    assert found.__spec__ is spec
    assert found.__name__ == today


@pytest.mark.filterwarnings("ignore:isoscope:FutureWarning")
@pytest.mark.parametrize("name", ["isoscope.corpora.nothing", "isoscope.unknown"])
def test_a_name_that_never_was_is_refused(name: str) -> None:
    with pytest.raises(ModuleNotFoundError):
        import_module(name)
