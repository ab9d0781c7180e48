"""`isoscope diff` names what was changed, and nothing else; it finds a flipped bit.

The tests of this file are one story, told in order: each compares with the finished project.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file

from page_blocks import Page
from pipeline_project import ARMS, Project
from tracked_runs import start

COPIED = {"mirrored": False}
RUN = "fusion/additive/seed-0"
WEIGHTS = "checkpoints/epoch-*/model.safetensors"


def diff(project: Project, a: str | Path, b: str | Path, *more: str, code: int = 0) -> Any:
    return json.loads(project.isoscope("diff", str(a), str(b), *more, "--json", code=code).out)


def parts(found: Any) -> list[str]:
    return [one["text"] for one in found.get("identity", [])]


def trained(project: Project, *words: str) -> str:
    """Train a run that is not the pipeline's; return its digest, by which its stored output is found."""
    done = json.loads(project.isoscope("train", "fusion", "additive", *words, "--json").out)
    return str(Path(done["folder"]).parent.name)


@pytest.fixture(scope="module")
def copied(project: Project) -> Path:
    """The same run inside another project's folder."""
    target = project.folder.parent / "opened" / "models" / RUN
    shutil.copytree(project.folder / "models" / RUN, target)
    return target


def test_a_copy_is_equal_in_every_bit(project: Project, copied: Path) -> None:
    found = diff(project, RUN, copied)
    assert not found["alarm"]
    assert "equal in every bit" in found["answer"][0]
    assert found["answer"][1].endswith("no part differs: parameters, data, code, plug-ins, inputs")
    assert found.keys() == {"alarm", "answer", "out", "pairs", "notes"}
    assert "environment of a run is not known" in found["notes"][0]["note"], "the copy has no record"
    own = diff(project, RUN, f"models/{RUN}")
    assert own["answer"][1].endswith("inputs, environment")
    assert own.keys() == {"alarm", "answer", "out", "pairs"}
    assert diff(project, project.digest("additive")[:8], copied)["pairs"] == found["pairs"]
    assert diff(project, f"HEAD:models/{RUN}", RUN)["pairs"] == found["pairs"]
    assert diff(project, "HEAD", ".")["pairs"][0]["unequal"] == ""


def test_a_library_of_another_version_is_named(project: Project, copied: Path) -> None:
    """The record of the copy stands in its own project."""
    digest = project.digest("additive")
    author = project.records()[digest].author
    assert author is not None
    with start(copied.parents[3], digest=digest, environment=author.environment | {"torch": "1.0"}) as record:
        record.end("FINISHED")
    found = diff(project, RUN, copied)
    assert parts(found) == [f"torch {author.environment['torch']} → 1.0"]
    assert found["identity"][0]["kind"] == "environment"
    assert "equal in every bit" in found["answer"][0]
    record.path.unlink()


def test_a_flipped_bit_of_a_weight_is_an_alarm(project: Project, copied: Path) -> None:
    (file,) = copied.glob(WEIGHTS)
    whole = bytearray(file.read_bytes())
    whole[-2] ^= 1
    file.unlink()  # it may be a link
    file.write_bytes(whole)
    found = diff(project, RUN, copied, code=1)
    assert found["alarm"]
    assert found["answer"][0].startswith("ALARM: ")
    assert found["answer"][0].endswith(f" differ: {file.relative_to(copied).as_posix()}")
    assert found["pairs"][0]["unequal"] == file.relative_to(copied).as_posix()
    assert sum(one["tensors"] - one["equal"] for one in found["weights"]) == 1
    assert not any(one["first_step"] for one in found["metrics"])
    assert found["flipped"][0]["flipped"] == 0
    assert found["traces"] == [{"pair": "", "name": None, "step": None, "a": None, "b": None}]
    assert parts(found) == []
    (copied / "predictions.parquet").unlink()
    (copied / "predictions.parquet").write_text("damaged", "utf-8")
    damaged = diff(project, RUN, copied, code=1)
    assert damaged["alarm"]
    assert damaged["weights"] == found["weights"]
    assert any("predictions.parquet" in one["note"] for one in damaged["notes"])
    assert "flipped" not in damaged
    before, after = (load_file(one) for one in (file, *(project.folder / "models" / RUN).glob(WEIGHTS)))
    assert [name for name in before if (before[name] != after[name]).any()]


def test_a_learning_rate_is_named_with_both_values(project: Project) -> None:
    digest = trained(project, "--seed", "0", "-S", "training.learning_rate=1e-2")
    found = diff(project, RUN, digest[:10])
    assert parts(found) == ["training.learning_rate 0.03 → 0.01"]
    assert not found["alarm"]
    first = {one["name"]: one["first_step"] for one in found["metrics"]}
    # The first update has another rate, so the second loss and the weights differ, and no number before.
    assert min(step for step in first.values() if step is not None) > 0
    assert found["traces"][0]["step"] == 2
    assert found["traces"][0]["name"] == "trace/loss"
    assert all(one["distance"] > 0 for one in found["weights"])
    back = diff(project, digest, RUN)
    assert parts(back) == ["training.learning_rate 0.01 → 0.03"]
    assert back["flipped"][0]["right_a"] == found["flipped"][0]["right_b"]
    assert back["flipped"][0]["p"] == found["flipped"][0]["p"]


def test_a_seed_is_named(project: Project) -> None:
    found = diff(project, RUN, trained(project, "--seed", "7"))
    assert parts(found) == ["seed 0 → 7"]
    assert found["traces"][0]["step"] == 0


def test_a_row_of_data_is_named(project: Project) -> None:
    file = project.folder / "texts/order.jsonl"
    before = file.read_text("utf-8")
    first, rest = before.split("\n", 1)
    file.write_text(first.replace('"class": 0', '"class": 1') + "\n" + rest, "utf-8")
    project.isoscope("prepare", "tiny")
    trained(project, "--seed", "0", "--out", "models/by-hand/row")
    found = diff(project, RUN, "models/by-hand/row")
    assert {one["kind"] for one in found["identity"]} == {"data"}
    assert any(" row" in text for text in parts(found))
    assert "text" not in found.get("flips", [{}])[0], "the data of the first run are not here"
    file.write_text(before, "utf-8")
    project.isoscope("prepare", "tiny")


def test_a_function_is_named_and_nothing_else(project: Project) -> None:
    optim, rising = "src/isoscope/training/optim.py", "    rising = math.floor(warmup * total)\n"
    project.edit(optim, rising, rising.replace("\n", " + 0\n"))
    found = diff(project, RUN, trained(project, "--seed", "0", "-S", "training.threads=1"))
    assert parts(found) == ["schedule_factor in training/optim.py: changed (not committed)"]
    assert "equal in every bit" in found["answer"][0], "the function computes the same"
    project.edit(optim, rising.replace("\n", " + 0\n"), rising)


def test_a_bundle_is_compared_as_it_is(project: Project) -> None:
    project.isoscope("bundle", "review.zip")
    found = diff(project, ".", "review.zip")
    assert not found["alarm"]
    assert "equal in every bit" in found["answer"][0]
    assert "one side lacks checkpoints/" in found["notes"][0]["note"]
    other = diff(project, f"models/{RUN}", "review.zip:models/fusion/conv2d/seed-0")
    assert "model.fusion.kind additive → conv2d" in parts(other)
    assert "no such file" in project.refused("diff", ".", "other.zip")


def test_arms_are_compared_in_pairs_on_a_page(project: Project) -> None:
    found = diff(project, *(f"fusion/{arm}" for arm in ARMS), "--out", "told")
    assert "model.fusion.kind additive → conv2d" in parts(found)
    assert [one["pair"] for one in found["pairs"]] == ["seed-0"]
    accuracy = next(one for one in found["comparison"] if one["metric"] == "test/accuracy")
    assert accuracy["n"] == 1
    assert accuracy["difference"] == pytest.approx(accuracy["b"] - accuracy["a"])
    assert accuracy["low"] is None
    assert [one["name"] for one in found["unshared"]] == ["bert.embeddings.fusion.weight"]
    page = project.text("told/index.html")
    for heading in ("What determines the numbers?", "Which weights differ?", "Which predictions flipped?"):
        assert heading in page
    assert page.count("<svg") == 2
    assert json.loads(project.text("told/diff.json")) == found
    assert [one["pair"] for one in diff(project, "fusion", "fusion")["pairs"]] == [f"{arm}/seed-0" for arm in ARMS]


def test_checkpoints_are_compared_by_their_weights(project: Project) -> None:
    folders = [next((project.output(arm) / "checkpoints").iterdir()) for arm in ARMS]
    found = diff(project, *folders)
    assert found.keys() == {"alarm", "answer", "out", "pairs", "weights", "unshared"}
    assert not found["alarm"]


@pytest.mark.parametrize(
    "words, said",
    [
        (("fusion/additve", RUN), "no folder, study, arm, digest, or git revision"),
        (("fusion", RUN), r"fusion (study) and fusion/additive/seed-0 (run) have no runs of equal names"),
        (("HEAD:models/none", RUN), "no finished run and no checkpoint"),
        (("texts", RUN), "no finished run and no checkpoint"),
        (("reports/parts/fusion", RUN), "an output of the stage analyse"),
        ((RUN, RUN, "--out", "src/told"), "among the project's sources"),
    ],
)
def test_other_names_are_refused(project: Project, words: tuple[str, ...], said: str) -> None:
    assert said in project.refused("diff", *words)


def test_the_page_of_the_documentation_prints_what_it_shows(project: Project) -> None:
    assert Page("docs/diff.md", project).run() > 4
