"""Outputs that come from elsewhere (dvc pull): names are checked where they are read, and each run stands alone."""

import json
import os
import shutil
from itertools import product
from operator import methodcaller
from pathlib import Path
from typing import Any

import pytest

from isoscope.base.errors import InputError
from isoscope.base.paths import Project
from isoscope.platform.config.tree import dump_yaml
from isoscope.platform.mirror.fields import models, tags, told
from isoscope.platform.mirror.mlflow import connect
from isoscope.platform.runs.lines import RunRecord, summed
from isoscope.platform.runs.output_files import restored
from isoscope.platform.runs.provenance import dvc_md5
from isoscope.platform.runs.record import read
from isoscope.platform.runs.stored import locked_runs
from isoscope.platform.stages.mirror import mirror_all
from tracked_runs import RUN, shown, write_record

GOOD, BAD = "aa" * 32, "bb" * 32
CONFIG: dict[str, Any] = {
    **{name: RUN[name] for name in ("study", "arm", "seed", "task", "axes", "code")},
    "inputs": {},
    "params": {"training": {"learning_rate": 2e-5}},
    "plugins": {},
    "labels": ["a", "b"],
}
POINT = {"name": "validation/accuracy", "value": 0.5, "step": 5, "epoch": 1}


def pulled(root: Path, digest: str, number: int, **changed: Any) -> Path:
    """An output without record, as in a clone after dvc pull."""
    output = root / "models" / "fusion" / "additive" / f"seed-{number}"
    output.mkdir(parents=True)
    (output / "config.yaml").write_text(dump_yaml({**CONFIG, "seed": number, "digest": digest, **changed}))
    (output / "metrics.jsonl").write_text(json.dumps(POINT) + "\n")
    return output


WRONG: list[tuple[str, Any]] = [
    *(
        (name, value)
        for name in ("study", "arm", "task")
        for value in ("../../evil", "/evil", "..", "a/b", "a\\b", "a\0b", "a\nb", "", "x" * 300, 3, ["a"], {"a": 1})
    ),
    *(("stage", value) for value in ("../evil", 3, ["train"], "compare/../..", "x" * 300)),
    *(("seed", value) for value in ("0", 1.5, [0], True, -1)),
    *((name, value) for name in ("axes", "params", "inputs", "plugins") for value in ("text", 3, ["a"])),
    *(("axes", value) for value in ({3: "a"}, {"fusion": ["a"]})),
    *(("inputs", value) for value in ({"data": 3}, {3: "0" * 32}, {"data": ["0"]})),
    *(("plugins", value) for value in ({"a.py": 3}, {3: "0" * 64})),
    *(("code", value) for value in (3, ["c"], {"a": 1})),
]


FILES = [
    ("config.yaml", "[digest]\ndigest: {}\n"),
    ("config.yaml", "digest: {}\nstudy: [\n"),
    ("config.yaml", "digest: {}\nstudy: &a [*a]\n"),
    ("config.yaml", "digest: {}\n--- \nstudy: fusion\n"),
    ("config.yaml", f"text: |\n  x\ndigest: {{}}\ndigest: {GOOD}\n"),
    ("metrics.jsonl", "[]\n"),
    ("metrics.jsonl", json.dumps(POINT | {"step": "5"}) + "\n"),
    ("metrics.jsonl", json.dumps(POINT | {"step": [5]}) + "\n"),
    ("metrics.jsonl", json.dumps(POINT | {"step": 2**70}) + "\n"),
    ("metrics.jsonl", json.dumps(POINT | {"epoch": "1"}) + "\n"),
    ("metrics.jsonl", json.dumps(POINT | {"name": ["a"]}) + "\n"),
    ("metrics.jsonl", json.dumps(POINT | {"name": ""}) + "\n"),
    ("metrics.jsonl", json.dumps(POINT | {"value": {}}) + "\n"),
    ("metrics.jsonl", "\udcff"),
]


def test_each_wrong_output_is_one_line_and_holds_up_no_other_run(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path for path in tmp_path.rglob("*") if not path.is_relative_to(project)}
    pulled(project, GOOD, 0)
    expected = {}
    for seed, (name, value) in enumerate(WRONG, start=1):
        expected[pulled(project, f"a{seed:063x}", seed, **{name: value}) / "config.yaml"] = name
    for seed, (file, text) in enumerate(FILES, start=1 + len(WRONG)):
        output = pulled(project, digest := f"a{seed:063x}", seed)
        text = text.replace("{}", digest) if file == "config.yaml" else text
        (output / file).write_bytes(text.encode("utf-8", "surrogateescape"))
        expected[output / file] = ""
    with pytest.raises(InputError, match=rf"^{len(expected)} of {1 + len(expected)} runs were not sent to MLflow"):
        mirror_all(Project(project, project), None)
    said = capsys.readouterr().err.splitlines()
    assert len(said) == len(expected)
    for path, name in expected.items():
        [line] = [line for line in said if f"{path}:" in line]
        assert name in line
    server = connect(None, project)
    assert [run["status"] for run in shown(server, "fusion", GOOD)] == ["FINISHED"]
    assert {one.name for one in server.experiments()} == {"Default", "fusion"}
    assert {path for path in tmp_path.rglob("*") if not path.is_relative_to(project)} == before


@pytest.mark.parametrize(
    "file, kind", [*product(["config.yaml", "metrics.jsonl"], ["folder", "fifo"]), ("", "link out of the project")]
)
def test_what_is_of_another_kind_is_named_and_read_by_nobody(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str, kind: str
) -> None:
    """A file of an output, or the output itself."""
    pulled(project, GOOD, 0)
    bad, links = pulled(project, BAD, 1) / file, methodcaller("symlink_to", tmp_path / "elsewhere")
    bad.rename(tmp_path / "elsewhere")
    {"folder": Path.mkdir, "fifo": os.mkfifo, "link out of the project": links}[kind](bad)
    if file == "config.yaml":  # then nothing says that it is a run
        assert mirror_all(Project(project, project), None)["runs"] == 1
        return
    with pytest.raises(InputError, match=r"^1 of 2 runs were not sent to MLflow"):
        mirror_all(Project(project, project), None)
    [line] = capsys.readouterr().err.splitlines()
    assert f"{bad}: " in line if file else str(bad) in line


@pytest.mark.parametrize(
    "field, value",
    [
        ("study", "../../evil"),
        ("arm", "a/b"),
        ("task", 3),
        ("digest", "../../evil"),
        ("stage", "../evil"),
        ("seed", "0"),
        ("axes", []),
        ("params", "x"),
        ("inputs", {"a": 1}),
        ("tags", {"isoscope.search": "../../evil"}),
        ("tags", []),
        ("parent", ["a"]),
        ("study", "x" * 300),
    ],
)
def test_a_record_is_read_with_the_same_checks(field: str, value: Any) -> None:
    record = RunRecord()
    record.add(summed(json.dumps({"kind": "run", "t": 1, "digest": GOOD, **RUN, field: value})))
    assert (record.run, record.damaged) == (None, 1)


@pytest.mark.parametrize(
    "kind, field, value",
    [
        *(("metric", field, None) for field in ("t", "name", "value", "step")),
        *(("metric", field, {"a": 1}) for field in ("name", "value", "step", "epoch")),
        *(("attempt", field, value) for field in ("git", "environment", "job") for value in (5, ["a"])),
        *(("attempt", field, None) for field in ("t", "git", "environment")),
        *(("checkpoint", "metrics", value) for value in ({"a": [1]}, {"a": "x"}, {"a": None}, [])),
        *((kind, "t", "1") for kind in ("metric", "attempt", "checkpoint", "end")),
    ],
)
def test_a_line_without_a_checksum_is_read_with_them_too(tmp_path: Path, kind: str, field: str, value: Any) -> None:
    path = write_record(tmp_path, digest=GOOD)
    lines = [{k: v for k, v in json.loads(line).items() if k != "sum"} for line in path.read_text().splitlines()]
    one = next(line for line in lines if line["kind"] == kind)
    path.write_text("".join(json.dumps(line | ({field: value} if line is one else {})) + "\n" for line in lines))
    record = read(path)
    assert record.damaged == 1
    assert tags(record, record.run)
    assert models(record, record.run)
    assert told(record.status, record.metrics)


def test_a_damaged_record_holds_up_no_other_run(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_record(project, digest=GOOD)
    path = write_record(project, digest=BAD)
    lines = path.read_bytes().splitlines()
    first = {name: value for name, value in json.loads(lines[0]).items() if name != "sum"}
    lines[0] = summed(json.dumps({**first, "study": "../../evil"}))
    path.write_bytes(b"\n".join(lines) + b"\n")
    assert mirror_all(Project(project, project), None)["runs"] == 1
    assert "its line about the run is lost" in capsys.readouterr().err
    assert not (project.parent / "evil").exists()


@pytest.mark.parametrize("name", ["../evil", "/evil", "a/../../evil", "a\\..\\evil", ".", "a//b", "a\0b"])
def test_a_listing_of_dvcs_cache_that_leads_out_of_its_folder_is_not_used(tmp_path: Path, name: str) -> None:
    """`relpath` of a pulled `.dir` file would become a path to write to."""
    md5 = "ab" + "0" * 30
    (tmp_path / "files/md5/ab").mkdir(parents=True)
    listing = tmp_path / f"files/md5/ab/{'0' * 30}.dir"
    sound = {"relpath": "additive/seed-0/config.yaml", "md5": md5}
    lock = {"outs": [{"path": "models/fusion", "md5": f"{md5}.dir"}]}
    (tmp_path / "dvc.lock").write_text(dump_yaml({"stages": {"train": lock}}))
    (tmp_path / "files/md5/ab" / ("0" * 30)).write_text("digest")
    for listed, found in (([sound], 1), ([sound, {"relpath": f"additive/seed-0/{name}", "md5": md5}], 0)):
        listing.write_text(json.dumps(listed))
        assert len(locked_runs(tmp_path, tmp_path)) == found


def test_data_is_claimed_where_it_is_at_hand_and_the_same(project: Path) -> None:
    data = project / "data/processed/order"
    data.mkdir(parents=True)
    for split in ("train", "validation", "test"):
        (data / f"{split}.parquet").write_bytes(split.encode())
    output = pulled(project, GOOD, 0, inputs={"data/processed/order": dvc_md5(data)})
    claimed = {one.name: one.digest for one in restored(output, root=project, t=1).datasets}
    assert claimed == {f"order/{path.stem}": dvc_md5(path) for path in data.iterdir()}
    (data / "train.parquet").write_bytes(b"other")
    assert restored(output, root=project, t=1).datasets == []
    shutil.rmtree(project / "data")
    assert restored(output, root=project, t=1).datasets == []


def test_a_folder_that_is_no_finished_run_is_refused(project: Path) -> None:
    output = pulled(project, GOOD, 0)
    points, config = output / "metrics.jsonl", output / "config.yaml"
    for harm, said in (
        (lambda: points.write_text('{"name": "train/loss"}\n'), r"metrics.jsonl:1: not a metric point"),
        (points.unlink, "get it with dvc pull"),
        (lambda: config.write_text("study: fusion\n"), "digest"),
    ):
        harm()
        with pytest.raises(InputError, match=said):
            restored(output, root=project, t=1)
