"""A command reads prepared data only if its configuration matches theirs."""

import io
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from filelock import Timeout

import isoscope.platform.stages
from finished_runs import write_run
from isoscope import plugins
from isoscope.base import built_in, paths
from isoscope.base.errors import InputError
from isoscope.base.paths import Project
from isoscope.base.processes import StopSignal
from isoscope.platform.cli import app
from isoscope.platform.config.load import Configuration
from isoscope.platform.config.tree import dump_yaml, read_yaml
from isoscope.platform.runs import provenance
from isoscope.platform.runs.locks import file_lock
from isoscope.platform.runs.prepared import SETTINGS, check_prepared, content_md5
from isoscope.platform.runs.provenance import dvc_md5
from isoscope.platform.stages.prepare import prepare
from isoscope.platform.stages.study_cells import Setup, states
from pipeline_project import TASK, sentences
from struck import KINDS

ROOT = Path(__file__).parents[3]
TINY = Path("variants/task/tiny.yaml")
DATA = Path("data/processed/tiny")
ON_TINY: dict[str, Any] = {
    "tasks": ["tiny"],
    "studies": {
        "fusion": {
            "about": "Which fusion?",
            "task": "tiny",
            "settings": [],
            "seeds": [0],
            "kind": "fusion",
            "axes": {"fusion": ["additive", "conv2d"]},
        }
    },
    "comparisons": {},
}

SPACES = """\
comparisons:
  spaces:
    {kind: spaces, models: {one: {study: fusion, arm: additive}, other: {study: fusion, arm: conv2d}}, seed: 0,
     text: {task: tiny, split: validation, column: sentence}, probe: words, occurrences: 100, per_sentence: 2,
     pooling: mean, permutations: 2, items: 20, neighbours: 5, components: null, draws: 20, histogram: 1000,
     over_training: null}"""


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose task `tiny`, a local file, is prepared."""
    folder = tmp_path_factory.mktemp("prepared") / "project"
    for name in ("dvc.yaml", "variants"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copyfile
        folder.mkdir(exist_ok=True)
        copy(ROOT / name, folder / name)
    params = read_yaml(ROOT, paths.PARAMS) | ON_TINY
    params["data"]["tokenizer"]["vocab_size"] = 100
    (folder / "params.yaml").write_text(dump_yaml(params), "utf-8")
    (folder / TINY).write_text(TASK, "utf-8")
    (folder / "texts").mkdir()
    (folder / "texts/order.jsonl").write_text(sentences(), "utf-8")
    prepare(Configuration(folder).data("tiny"), task="tiny", project=Project(folder, folder))
    return folder


@pytest.fixture
def project(prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    folder = tmp_path / "project"
    shutil.copytree(prepared, folder)
    monkeypatch.chdir(folder)
    return Project(folder, folder)


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text("utf-8")
    assert text.count(old) == 1
    file.write_text(text.replace(old, new), "utf-8")


def refused(words: Iterable[str]) -> str:
    with pytest.raises(InputError) as caught:
        app([*words], standalone_mode=False)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def check(project: Project, *overrides: str) -> None:
    check_prepared(project, Configuration(project.folder, overrides), "tiny")


def test_data_of_the_same_settings_are_read(project: Project) -> None:
    check(project)
    check(project, "training.epochs=2", "tasks=[tiny, sentiment]", "data.tokenizer.vocab_size=100")
    found = json.loads((project.folder / "data/processed/tiny" / SETTINGS).read_text("utf-8"))
    assert found["data"]["source"]["path"] == "texts/order.jsonl"
    before = dvc_md5(project.folder / "data/processed/tiny")
    app(["prepare", "tiny", "-S", "training.epochs=1", "-S", "data.source.seed=0"], standalone_mode=False)
    assert dvc_md5(project.folder / "data/processed/tiny") == before, "what leaves the data alone may be set"


def test_one_process_at_a_time_writes_the_data_of_a_task(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    science, held = built_in.load(built_in.STAGES, "prepare"), list[str]()
    write = science.write

    def watched(*given: Any) -> Any:
        for task in ("tiny", "other"):
            with suppress(Timeout), file_lock(project.locks / f"prepare-{task}.lock", seconds=0):
                held.append(f"{task} is free")
        return write(*given)

    monkeypatch.setattr(science, "write", watched)
    prepare(Configuration(project.folder).data("tiny"), task="tiny", project=project)
    assert held == ["other is free"]
    check(project)


def test_a_second_process_says_that_it_waits(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    class Heard(io.StringIO):
        def write(self, text: str) -> int:
            held.release()  # the first process ends once the second has said so
            return super().write(text)

    held, heard = file_lock(project.locks / "prepare-tiny.lock"), Heard()
    held.acquire()
    monkeypatch.setattr(sys, "stderr", heard)
    prepare(Configuration(project.folder).data("tiny"), task="tiny", project=project)
    assert heard.getvalue() == "isoscope: prepare tiny: another process writes it; waiting for its end\n"


@pytest.mark.parametrize(
    "file, old, new, expected",
    [
        (
            "params.yaml",
            "vocab_size: 100",
            "vocab_size: 200",
            "vocab_size 100, but params.yaml says 200",
        ),
        ("params.yaml", "lowercase: true", "lowercase: false", "lowercase True, but params.yaml says False"),
        (TINY, "seed: 0", "seed: 1", f"data.source.seed 0, but {TINY} says 1"),
        (TINY, "held_out: 0.2", "held_out: 0.1", f"data.source.held_out 0.2, but {TINY} says 0.1"),
        (TINY, "test: null", "test: test", f"data.source.splits.test None, but {TINY} says 'test'"),
        (TINY, "sentence: text", "sentence: body", f"data.source.columns.sentence 'text', but {TINY} says 'body'"),
        (TINY, "texts/order.jsonl", "texts/other.jsonl", f"'texts/order.jsonl', but {TINY} says 'texts/other.jsonl'"),
        (TINY, "licence: CC0-1.0", "licence: unknown", f"data.source.licence 'CC0-1.0', but {TINY} says 'unknown'"),
    ],
)
def test_any_other_setting_is_refused_with_both_values(
    project: Project, file: str, old: str, new: str, expected: str
) -> None:
    edit(project.folder / file, old, new)
    line = rf"^data/processed/tiny: prepared with .*{re.escape(expected)}.*; run: isoscope prepare tiny$"
    with pytest.raises(InputError, match=line):
        check(project)
    if old == "seed: 0":  # as `dvc exp run -S variants/task/…` does it
        before = content_md5(project.folder / "data/processed/tiny")
        app(["prepare", "tiny"], standalone_mode=False)
        assert content_md5(project.folder / "data/processed/tiny") != before
    else:
        edit(project.folder / file, new, old)
    check(project)


READERS = {
    "train": ["train fusion additive --seed 0", "accept", "search run", "search status", "search confirm"],
    "analyse": ["analyse fusion", "compare spaces"],
    "states": ["states fusion additive"],
    "report": ["report"],
    "bundle": ["bundle review.zip"],
}


@pytest.mark.parametrize("command", [command for commands in READERS.values() for command in commands])
def test_every_command_that_reads_data_refuses(project: Project, command: str) -> None:
    before = content_md5(project.folder / "data/processed/tiny")
    edit(project.folder / "params.yaml", "comparisons: {}", SPACES)
    edit(project.folder / TINY, "seed: 0", "seed: 1")
    assert "prepared with data.source.seed 0" in refused(command.split())
    edit(project.folder / TINY, "seed: 1", "seed: 0")
    if command not in ("accept", "report"):  # accept takes none; a title is no data
        line = refused([*command.split(), "-S", "data.source.seed=1"])
        assert "with data.source.seed 0, but -S says 1; -S data.source.seed cannot change prepared data" in line
    assert content_md5(project.folder / "data/processed/tiny") == before
    assert not project.records.exists()


def test_no_other_stage_reads_data() -> None:
    sources = Path(isoscope.platform.stages.__file__).parent.glob("*.py")
    readers = {
        path.stem for path in sources if re.search(r"paths\.processed\(|read_manifest\(", path.read_text("utf-8"))
    }
    # search_runs and study_run only name or hash what others read; audit lists what is wrong
    assert readers - {"prepare", "search_runs", "study_run", "audit"} == set(READERS)


@pytest.mark.parametrize("name", ["data.source.seed=1", f"{TINY}:data.source.seed=1", "data.tokenizer.lowercase=false"])
def test_a_task_changed_for_one_command_is_not_prepared_into_its_place(project: Project, name: str) -> None:
    place = project.folder / "data/processed/tiny"
    before = dvc_md5(place)
    line = refused(["prepare", "tiny", "-S", name])
    assert f"-S changes {name.rpartition(':')[2].partition('=')[0]}" in line
    assert "--out FOLDER" in line
    for own in ("data/processed/tiny", "data/processed/other", "data", "data/measures/x"):
        assert "is a folder of the pipeline" in refused(["prepare", "tiny", "-S", name, "--out", own])
    assert dvc_md5(place) == before
    elsewhere = project.folder / "data/by-hand/tiny"
    for _ in range(2):  # and over itself
        app(["prepare", "tiny", "-S", name, "--out", str(elsewhere)], standalone_mode=False)
    assert dvc_md5(place) == before
    assert dvc_md5(elsewhere) != before
    check(project)


@pytest.mark.parametrize("command", ["analyse fusion", "states fusion additive"])
def test_a_run_of_other_data_is_not_looked_at(project: Project, command: str) -> None:
    for arm in ("additive", "conv2d"):
        write_run(project.folder / "models", arm, 0, task="tiny")
    line = refused(command.split())
    assert line.startswith("models/fusion/additive/seed-0: trained on other data than data/processed/tiny holds now")
    assert line.endswith("; run: isoscope train fusion additive --seed 0")


def test_any_task_with_an_overlay_can_be_prepared(project: Project) -> None:
    shutil.copy(project.folder / TINY, project.folder / "variants/task/bank.yaml")
    app(["prepare", "bank"], standalone_mode=False)
    of_both = [content_md5(project.folder / "data/processed" / task) for task in ("bank", "tiny")]
    assert of_both[0] == of_both[1], "a task's name is no part of its data"
    assert "no task 'bonk'; did you mean 'bank'?" in refused(["prepare", "bonk"])


def test_a_file_edited_since_is_refused_and_one_that_is_gone_is_not(project: Project) -> None:
    file = project.folder / "texts/order.jsonl"
    before = file.read_bytes()
    file.write_bytes(before.replace(b"\n", b"\r\n"))
    line = "^data/processed/tiny: texts/order.jsonl has changed since it was prepared; run: isoscope prepare tiny$"
    with pytest.raises(InputError, match=line):
        check(project)
    file.unlink()  # as in a clone that has pulled the data alone
    check(project)


@pytest.mark.parametrize("lacking", ["the file", "its hashes"])
def test_data_of_an_older_isoscope_are_prepared_again_to_the_same_digest(project: Project, lacking: str) -> None:
    before, file = content_md5(project.folder / DATA), project.folder / DATA / SETTINGS
    known = json.loads(file.read_text("utf-8"))
    del known["files"]
    file.write_text(json.dumps(known))
    if lacking == "the file":
        file.unlink()
        assert dvc_md5(file.parent) == before, "what runs were told of data of an older isoscope"
    with pytest.raises(
        InputError, match=r"no settings.json .*\(prepared by an older isoscope\); run: isoscope prepare"
    ):
        check(project)
    app(["prepare", "tiny"], standalone_mode=False)
    check(project)
    assert content_md5(file.parent) == before


def test_damaged_settings_are_named(project: Project) -> None:
    file = project.folder / "data/processed/tiny" / SETTINGS
    file.write_text(file.read_text("utf-8")[:-9], "utf-8")
    with pytest.raises(InputError, match=r"data/processed/tiny: settings.json is damaged; run: isoscope prepare tiny"):
        check(project)


def test_a_data_set_of_ones_own_whose_code_has_changed_is_refused(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugins.DATASETS, "own", {})
    own = project.folder / "parity.py"
    shutil.copy(ROOT / "docs/examples/parity.py", own)
    (project.folder / TINY).write_text("data: {source: {kind: parity, size: 400, letters: 12, seed: 0}}\n", "utf-8")
    app(["prepare", "tiny", "--plugin", str(own)], standalone_mode=False)

    def again() -> None:
        plugins.DATASETS.own.clear()
        check_prepared(project, Configuration(project.folder, (), [own]), "tiny")

    again()
    text = own.read_text("utf-8")
    own.write_text(text + "\n# a remark\n", "utf-8")
    again()
    own.write_text(text + "\nMORE = 1\n", "utf-8")
    with pytest.raises(
        InputError, match=r"parity.py has changed since the task was prepared; run: isoscope prepare tiny"
    ):
        again()


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_damage_to_every_file_is_named_with_its_cure(project: Project, kind: str) -> None:
    whole = dvc_md5(project.folder / DATA)
    files = sorted(path for path in (project.folder / DATA).rglob("*") if path.is_file())
    assert {file.name for file in files} >= {"train.parquet", "manifest.json", SETTINGS, "tokenizer.json"}
    for file in files:
        kept = {one: one.read_bytes() for one in files}
        KINDS[kind](file)
        line = refused(["train", "fusion", "additive", "--seed", "0"])
        assert line.startswith(f"{DATA}"), line
        assert re.search(r"run: isoscope prepare tiny( \(.*\))?$", line), line
        for one, content in kept.items():
            one.write_bytes(content)
    KINDS[kind](files[0])
    app(["prepare", "tiny"], standalone_mode=False)
    assert dvc_md5(project.folder / DATA) == whole


def invert_labels(folder: Path) -> None:
    table = pq.read_table(folder / "test.parquet")
    label = pa.array(1 - table["label"].to_numpy())
    pq.write_table(table.set_column(table.column_names.index("label"), "label", label), folder / "test.parquet")


def swap_tokens(folder: Path) -> None:
    file = folder / "tokenizer/tokenizer.json"
    text = file.read_text("utf-8")
    one, other = re.findall(r'"(\w+)": \d+', text)[-2:]
    file.write_text(text.replace(f'"{one}"', '"\0"').replace(f'"{other}"', f'"{one}"').replace('"\0"', f'"{other}"'))


DAMAGE: dict[str, Callable[[Path], object]] = {
    "inverted labels": invert_labels,
    "test = validation": lambda folder: shutil.copyfile(folder / "validation.parquet", folder / "test.parquet"),
    "a swapped token": swap_tokens,
    "another file": lambda folder: (folder / "tokenizer/added_tokens.json").write_text("{}"),
}


OF_ANY = [*(one for commands in READERS.values() for one in commands)]


@pytest.mark.parametrize("command, damage", [*zip(OF_ANY, cycle(DAMAGE)), *(("report", damage) for damage in DAMAGE)])
def test_no_command_reads_damaged_data(project: Project, command: str, damage: str) -> None:
    edit(project.folder / "params.yaml", "comparisons: {}", SPACES)
    DAMAGE[damage](project.folder / DATA)
    line = refused(command.split())
    assert line.startswith(f"{DATA}: ")
    assert line.endswith("run: isoscope prepare tiny")
    assert not project.records.exists()


def test_a_stage_called_without_the_command_line_checks_the_data(project: Project) -> None:
    write_run(project.folder / "models", "additive", 0, task="tiny")
    invert_labels(project.folder / DATA)
    configuration = Configuration(project.folder)
    setup = Setup(configuration, project, "states")
    with StopSignal() as stop, pytest.raises(InputError, match=r"test.parquet has changed since it was written"):
        states(setup, ("fusion", "additive", 0), stop=stop)


def test_a_file_is_hashed_again_only_if_it_has_changed(tmp_path: Path) -> None:
    calls = []
    hashed = provenance.remembered(lambda path: calls.append(path) or path.read_text())  # type: ignore[func-returns-value]
    file = tmp_path / "file"
    file.write_text("one")
    assert [hashed(file), hashed(file), len(calls)] == ["one", "one", 2], "a file just written may change in its tick"
    later = time.time() + 1000
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(provenance.time, "time", lambda: later)
        assert [hashed(file), hashed(file), len(calls)] == ["one", "one", 3]
        stamp = file.stat()
        file.write_text("two")
        os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
        assert hashed(file) == "two", "of equal size and time"
