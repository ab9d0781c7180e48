"""Text tasks, without labels: read from every source, prepared, and refused by name where classes are needed."""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from isoscope.base.errors import InputError
from isoscope.base.paths import Project
from isoscope.data import tokens
from isoscope.data.batches import draw_fraction
from isoscope.data.corpus import SPLITS, texts
from isoscope.data.files import read
from isoscope.data.ngrams import baselines
from isoscope.platform.config.load import Configuration
from isoscope.platform.config.tree import read_yaml
from isoscope.platform.report.page import task
from isoscope.platform.results.paired_comparison import StudyRuns
from isoscope.platform.runs.prepared import check_prepared
from isoscope.platform.stages.prepare import prepare
from isoscope.platform.stages.training_job import job
from isoscope.studies.fusion.tables import tables as fusion_tables

ROOT = Path(__file__).parents[2]
COLUMNS = {"sentence1": "src", "sentence2": "tgt"}
ALONE = {"train": "train", "validation": None, "test": None}
ROWS = [(f"the {noun} is {word}", f"{word} est {noun}") for noun in "abcdefghij" for word in ("big", "new", "old")]
OVERLAY = """\
data:
  source:
    kind: local
    path: texts/pairs.jsonl
    columns: {sentence1: src, sentence2: tgt, label: null}
    splits: {train: train, validation: null, test: null}
    held_out: 0.2
    seed: 0
    licence: CC0-1.0
  tokenizer: {kind: bpe, vocab_size: 60, lowercase: true}
"""


def write_rows(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pq.write_table(pa.table({"src": [one for one, _ in ROWS], "tgt": [other for _, other in ROWS]}), path)
    elif path.suffix == ".jsonl":
        lines = (json.dumps({"src": one, "tgt": other}) for one, other in ROWS)
        path.write_text("\n".join(lines), "utf-8")
    else:
        between = {".csv": ",", ".tsv": "\t"}[path.suffix]
        path.write_text("".join(f"{one}{between}{other}\n" for one, other in [("src", "tgt"), *ROWS]), "utf-8")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project whose task `pairs`, a local file, is prepared."""
    folder = tmp_path_factory.mktemp("text")
    shutil.copytree(ROOT / "variants", folder / "variants")
    shutil.copyfile(ROOT / "params.yaml", folder / "params.yaml")
    (folder / "variants/task/pairs.yaml").write_text(OVERLAY, "utf-8")
    write_rows(folder / "texts/pairs.jsonl")
    made = Project(folder, folder)
    prepare(Configuration(folder).data("pairs"), task="pairs", project=made)
    return made


@pytest.mark.parametrize("suffix", ["parquet", "jsonl", "csv", "tsv"])
def test_every_format_reads_without_labels(tmp_path: Path, suffix: str) -> None:
    write_rows(tmp_path / f"pairs.{suffix}")
    given = {"columns": COLUMNS, "splits": ALONE, "held_out": 0.2, "seed": 0, "licence": "CC0-1.0"}
    corpus = read(tmp_path / f"pairs.{suffix}", **given)
    assert corpus.labels == ()
    assert [corpus.splits[split].num_rows for split in SPLITS] == [18, 6, 6]
    found = [text for split in SPLITS for text in texts(corpus.splits[split])]
    assert sorted(found) == sorted(ROWS)
    assert all(table.column_names == ["sentence1", "sentence2"] for table in corpus.splits.values())


@pytest.mark.parametrize(
    "columns, message",
    [
        ({"sentence1": "src"}, "columns: expected sentence and label, or sentence1, sentence2 and label (a text task"),
        (
            {"sentence1": "src", "sentence2": "mt"},
            "pairs.jsonl: column 'mt' (for sentence2) is missing; found src, tgt",
        ),
        (COLUMNS | {"label": "class"}, "pairs.jsonl: column 'class' (for label) is missing; found src, tgt"),
    ],
)
def test_missing_columns_are_refused(tmp_path: Path, columns: dict[str, str], message: str) -> None:
    write_rows(tmp_path / "pairs.jsonl")
    with pytest.raises(InputError) as caught:
        read(tmp_path / "pairs.jsonl", columns=columns, splits=ALONE, held_out=0.2, seed=0, licence="")
    assert message in str(caught.value)


def test_too_little_to_hold_out_is_refused(tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text("src,tgt\na,b\n", "utf-8")
    with pytest.raises(InputError, match=r"train has only 1 row, but it and each split"):
        read(tmp_path / "one.csv", columns=COLUMNS, splits=ALONE, held_out=0.2, seed=0, licence="")


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


def joint(folder: Path, path: str) -> Project:
    """Return a project with two tasks, `pairs` and `others`, of which `texts/<path>` is one of two joint sources."""
    shutil.copytree(ROOT / "variants", folder / "variants")
    shutil.copyfile(ROOT / "params.yaml", folder / "params.yaml")
    write_rows(folder / "texts/pairs.jsonl")
    other = (json.dumps({"src": f"{noun} {noun}land", "tgt": f"der {noun}wald"}) for noun in "pqrstuvwxyz")
    (folder / "texts/others.jsonl").write_text("\n".join(other), "utf-8")
    sources = "".join(
        f"""
      - kind: local
        path: texts/{name}.jsonl
        columns: {{sentence1: src, sentence2: tgt}}
        splits: {{train: train, validation: null, test: null}}
        held_out: 0.2
        seed: 0
        licence: CC0-1.0"""
        for name in ("pairs", path)
    )
    alone = "  tokenizer: {kind: bpe, vocab_size: 60, lowercase: true}\n"
    shared = f"  tokenizer:\n    kind: joint_bpe\n    vocab_size: 90\n    lowercase: true\n    sources:{sources}\n"
    for name in ("pairs", "others"):
        text = OVERLAY.replace("texts/pairs", f"texts/{name}").replace(alone, shared)
        (folder / f"variants/task/{name}.yaml").write_text(text, "utf-8")
    return Project(folder, folder)


def test_tasks_with_a_joint_vocabulary_have_the_same_tokenizer_and_their_own_baselines(tmp_path: Path) -> None:
    project = joint(tmp_path, "others")
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
        file.write('\n{"src": "new", "tgt": "neu"}')
    with pytest.raises(
        InputError, match=r"^data/processed/pairs: texts/others\.jsonl has changed since it was prepared"
    ):
        check_prepared(project, configuration, "pairs")


def test_a_missing_source_of_a_joint_vocabulary_is_named(tmp_path: Path) -> None:
    project = joint(tmp_path, "nowhere")
    with pytest.raises(InputError, match=r"texts/nowhere\.jsonl"):
        prepare(Configuration(tmp_path).data("pairs"), task="pairs", project=project)


SIZES = {"captions_9958": 29_000, "encyclopaedia_9958": 89_253, "german_7000": 29_000, "finnish_7000": 55_921}


@pytest.mark.parametrize("name", SIZES)
def test_a_shipped_fraction_of_real_data_has_exactly_the_examples_of_its_name(name: str) -> None:
    fraction = read_yaml(ROOT, Path(f"variants/settings/{name}.yaml"))["training"]["fraction"]
    rows = draw_fraction(np.zeros(SIZES[name], np.int64), fraction, seed=0)
    assert len(rows) == int(name.partition("_")[2])


def test_what_needs_classes_says_so(project: Project) -> None:
    configuration = Configuration(project.folder, ["studies.fusion.task=pairs"])
    (arm, cell), *_ = configuration.cells("fusion").items()
    with pytest.raises(InputError, match=r"objective\.kind 'classification' needs classes, but task 'pairs' has none"):
        job(configuration, cell, ("fusion", arm, 0), project)
    settings = {"phases": {}, "confidence": 0.95, "power": 0.8, "margin": 0.01}
    with pytest.raises(InputError, match=r"studies\.fusion\.kind: fusion compares classes, but its task has none; set"):
        fusion_tables({"fusion": StudyRuns({}, {"labels": []})}, **settings)


def test_the_report_shows_a_text_task(project: Project) -> None:
    manifest = json.loads((project.folder / "data/processed/pairs/manifest.json").read_text("utf-8"))
    shown = task("pairs", manifest)
    assert shown["about"]["Classes"] == "none: a text task"
    assert shown["splits"][0]["balance"] == "–"
    loss = manifest["baselines"]["trigram"]["test"]["sentence1"]
    value = f"{loss['loss']:.3f} nats per token (n = {loss['n']})"
    assert ("Trigrams, Kneser–Ney, sentence1, test loss", value) in shown["baselines"]
    assert len(shown["baselines"]) == 6
