"""A damaged SQLite file is one line that says what to do, before any work begins; it is never waited for."""

import random
from pathlib import Path

import pytest

from isoscope.base.errors import InputError
from isoscope.platform.search import storage
from isoscope.platform.search.status import in_words, status
from isoscope.platform.search.storage import place
from isoscope.platform.search.study import stored_study
from search_work import IDENTITY, a_search, driven


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a study of twelve trials."""
    folder = tmp_path_factory.mktemp("whole")
    search = a_search(sampler={"kind": "random", "seed": 0}, budget={"trials": 12, "hours": None})
    with driven(search, place(None, folder)) as (one, ask):
        while trial := ask():
            trial.report(0.5, 1)
            one.study.tell(trial, trial.params["penalty.weight"])
    return (folder / "studies.db").read_bytes()


def seen(folder: Path, content: bytes) -> str:
    """What `search status` says of a file with this content."""
    (folder / "studies.db").write_bytes(content)
    search, where = a_search(), place(None, folder)
    try:
        study = stored_study(search, IDENTITY, where)
        return in_words(storage.persist(lambda: status(study, search), f"storage {where.shown}", print))
    except InputError as error:
        return str(error)


def test_a_damaged_file_is_named(whole: bytes, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    sound = seen(tmp_path, whole)
    assert "12 trials done" in sound
    cuts = [seen(tmp_path, whole[:size]) for size in (100, 4096, len(whole) // 2, len(whole) - 4096)]
    assert all("is damaged" in one for one in cuts)
    random.seed(0)
    kinds = set()
    for _ in range(400 if pytestconfig.getoption("--exhaustive") else 40):
        bad, at = bytearray(whole), random.randrange(100, len(whole) - 64)
        bad[at : at + 64] = random.randbytes(64)
        said = seen(tmp_path, bytes(bad))
        assert "\n" not in said
        kinds.add("damaged" if "is damaged" in said else said)
    assert "damaged" in kinds
