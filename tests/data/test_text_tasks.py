"""Text tasks, without labels: read from every source, prepared, and refused by name where classes are needed."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from isoscope.base.errors import InputError
from isoscope.base.paths import Project
from isoscope.data import tokens
from isoscope.data.batches import draw_fraction
from isoscope.data.corpus import SPLITS
from isoscope.data.ngrams import baselines
from isoscope.platform.config.load import Configuration
from isoscope.platform.config.tree import read_yaml
from isoscope.platform.report.task_section import task
from isoscope.platform.results.paired_comparison import StudyRuns
from isoscope.platform.runs.prepared import check_prepared
from isoscope.platform.stages.prepare import prepare
from isoscope.platform.stages.train import job
from isoscope.studies.fusion.tables import tables as fusion_tables
from text_material import write

ROOT = Path(__file__).parents[2]
WORDS = [(noun, word) for noun in "abcdefghij" for word in ("big", "new", "old")]
ROWS = {"src": [f"the {noun} is {word}" for noun, word in WORDS], "tgt": [f"{word} est {noun}" for noun, word in WORDS]}
OTHERS = {"src": [f"{one} {one}land" for one in "pqrstuvwxyz"], "tgt": [f"der {one}wald" for one in "pqrstuvwxyz"]}


def source(name: str) -> dict[str, Any]:
    columns = {"sentence1": "src", "sentence2": "tgt"}
    splits = {"train": "train", "validation": None, "test": None}
    drawn = {"held_out": 0.2, "seed": 0, "licence": "CC0-1.0"}
    return {"kind": "local", "path": f"texts/{name}.jsonl", "columns": columns, "splits": splits, **drawn}


def project_of(folder: Path, kind: str, vocab_size: int, **tokenizer: Any) -> Project:
    """Return a project with the tasks `pairs` and `others`, local files, with the same options of the tokenizer."""
    shutil.copytree(ROOT / "variants", folder / "variants")
    shutil.copyfile(ROOT / "params.yaml", folder / "params.yaml")
    options = {"kind": kind, "vocab_size": vocab_size, "lowercase": True, **tokenizer}
    for name, rows in {"pairs": ROWS, "others": OTHERS}.items():
        write(folder / f"texts/{name}.jsonl", rows)
        overlay = {"data": {"source": source(name), "tokenizer": options}}
        (folder / f"variants/task/{name}.yaml").write_text(json.dumps(overlay), "utf-8")
    return Project(folder, folder)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project whose task `pairs` is prepared."""
    made = project_of(tmp_path_factory.mktemp("text"), "bpe", 60)
    prepare(Configuration(made.folder).data("pairs"), task="pairs", project=made)
    return made


def test_a_prepared_text_task(project: Project) -> None:
    folder = project.folder / "data/processed/pairs"
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    tables = {split: pq.read_table(folder / f"{split}.parquet") for split in SPLITS}
    tokenizer = tokens.load(folder / "tokenizer")
    ids = {
        split: {
            column: tokens.encode_column(tokenizer, table, column, max_length=99).ids for column in table.column_names
        }
        for split, table in tables.items()
    }
    assert manifest["baselines"] == baselines(ids, vocab_size=tokenizer.vocab_size)
    both = tokens.encode(tokenizer, tables["test"], max_length=99)
    assert both.labels.tolist() == [tokens.NO_CLASS] * 6
    for pair, one, other in zip(both.ids, *ids["test"].values(), strict=True):
        assert pair.tolist() == [*one.tolist(), *other.tolist()[1:]]
    # Both languages are in the vocabulary.
    assert {"▁est", "▁the"} <= tokenizer.backend.get_vocab().keys()


def test_encoding_a_column_keeps_classes_and_counts_cuts(project: Project) -> None:
    tokenizer = tokens.load(project.folder / "data/processed/pairs/tokenizer")
    table = pa.table({"sentence": ["the a", "the a is big"], "label": np.array([1, 0])})
    found = tokens.encode_column(tokenizer, table, "sentence", max_length=4)
    assert (found.labels.tolist(), found.truncated, found.lengths.tolist()) == ([1, 0], 1, [4, 4])
    assert not any(types.any() for types in found.type_ids)
    for column in ("label", "sentence2"):
        with pytest.raises(InputError, match=f"column '{column}': not a text column; the table has sentence"):
            tokens.encode_column(tokenizer, table, column, max_length=4)


def test_tasks_with_a_joint_vocabulary_have_the_same_tokenizer_and_their_own_baselines(tmp_path: Path) -> None:
    project = project_of(tmp_path, "joint_bpe", 90, sources=[source("pairs"), source("others")])
    configuration = Configuration(tmp_path)
    found = [prepare(configuration.data(name), task=name, project=project) for name in ("pairs", "others")]
    files = [{file.name: file.read_bytes() for file in (folder / "tokenizer").iterdir()} for folder in found]
    assert files[0] == files[1]
    assert {"▁est", "wald"} <= tokens.load(found[0] / "tokenizer").backend.get_vocab().keys(), "text of both tasks"
    manifests = [json.loads((folder / "manifest.json").read_text("utf-8")) for folder in found]
    assert manifests[0]["splits"]["train"]["rows"] == 18
    assert manifests[0]["baselines"] != manifests[1]["baselines"]
    check_prepared(project, configuration, "pairs")
    with (tmp_path / "texts/others.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"src": "new", "tgt": "neu"}')
    with pytest.raises(
        InputError, match=r"^data/processed/pairs: texts/others\.jsonl has changed since it was prepared"
    ):
        check_prepared(project, configuration, "pairs")


def test_a_missing_source_of_a_joint_vocabulary_is_named(tmp_path: Path) -> None:
    project = project_of(tmp_path, "joint_bpe", 90, sources=[source("nowhere")])
    with pytest.raises(InputError, match=r"texts/nowhere\.jsonl"):
        prepare(Configuration(tmp_path).data("pairs"), task="pairs", project=project)


SIZES = {"captions": 29_000, "news": 9_958, "german": 29_000, "finnish": 55_921}


@pytest.mark.parametrize("name", SIZES)
def test_a_shipped_fraction_of_real_data_has_exactly_the_examples_of_its_name(name: str) -> None:
    fraction = read_yaml(ROOT, Path(f"variants/settings/{name}_7000.yaml"))["training"]["fraction"]
    rows = draw_fraction(np.zeros(SIZES[name], np.int64), fraction, seed=0)
    assert len(rows) == 7000


def test_what_needs_classes_says_so(project: Project) -> None:
    configuration = Configuration(project.folder, ["studies.fusion.task=pairs"])
    (arm, cell), *_ = configuration.cells("fusion").items()
    with pytest.raises(
        InputError,
        match=r"objective\.kind 'classification' needs a column of the target 'label', but task 'pairs' has none",
    ):
        job(configuration, cell, ("fusion", arm, 0), project)
    settings = {"phases": {}, "confidence": 0.95, "power": 0.8, "margin": 0.01}
    with pytest.raises(InputError, match=r"studies\.fusion\.kind: fusion compares classes, but its task has none; set"):
        fusion_tables({"fusion": StudyRuns({}, {"labels": []})}, **settings)


def test_the_report_shows_a_text_task(project: Project) -> None:
    manifest = json.loads((project.folder / "data/processed/pairs/manifest.json").read_text("utf-8"))
    shown = task("pairs", manifest)
    assert shown["about"]["Target"] == "none: a text task"
    assert shown["splits"][0]["balance"] == "–"
    loss = manifest["baselines"]["trigram"]["test"]["sentence1"]
    value = f"{loss['loss']:.3f} nats per token (n = {loss['n']})"
    assert ("Trigrams, Kneser–Ney, sentence1, test loss", value) in shown["baselines"]
    assert len(shown["baselines"]) == 6
