"""The words of BLEU are an option of the objective; without it they follow the script of the task's target side."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from isoscope.base import paths
from isoscope.base.errors import InputError
from isoscope.base.paths import Project
from isoscope.platform.config.load import Configuration
from isoscope.platform.config.tree import differing, dump_yaml, flatten, read_yaml
from isoscope.platform.runs.follower import FOLLOWED
from isoscope.platform.stages.prepare import prepare
from isoscope.platform.stages.study_cells import Setup, training_job
from isoscope.platform.stages.train import CellJob, train

ROOT = Path(__file__).parents[3]
TARGETS = {
    "Chinese": ["今天天气很好，我们去公园散步。", "他在学校学习英语。"],
    "Japanese": ["今日は天気がいいです。", "彼は学校で英語を勉強します。"],
    "Thai": ["วันนี้อากาศดีมาก", "เขาเรียนภาษาอังกฤษที่โรงเรียน"],
    "German": ["Heute ist das Wetter schön.", "Er lernt Englisch in der Schule."],
}


def configured(folder: Path, language: str, *overrides: str) -> Configuration:
    """Return the configuration of a small translation model of pairs into a language, whose task is prepared."""
    rows = [
        json.dumps({"source": f"sentence number {number}", "target": f"{text} {number}"}, ensure_ascii=False)
        for number in range(40)
        for text in TARGETS[language]
    ]
    (folder / "texts").mkdir()
    (folder / "texts/pairs.jsonl").write_text("\n".join(rows), "utf-8")
    tree: dict[str, Any] = read_yaml(ROOT, paths.PARAMS)
    axes = {"objective": ["translation"], "fusion": ["additive"]}
    study = {"task": "pairs", "settings": ["small_language"], "seeds": [0], "kind": "arms", "axes": axes}
    tree |= {"tasks": ["pairs"], "search": None, "comparisons": {}, "studies": {"s": study}}
    tree["model"]["encoder"] |= {"hidden_size": 16, "heads": 2, "intermediate_size": 32}
    source = {
        "kind": "local",
        "path": "texts/pairs.jsonl",
        "columns": {"sentence1": "source", "sentence2": "target"},
        "splits": {"train": "train", "validation": None, "test": None},
        "held_out": 0.1,
        "seed": 0,
        "licence": "none",
    }
    tokenizer = {"kind": "bpe", "vocab_size": 300, "lowercase": False}
    (folder / "variants/task").mkdir(parents=True)
    (folder / "variants/task/pairs.yaml").write_text(dump_yaml({"data": {"source": source, "tokenizer": tokenizer}}))
    for axis in ("objective", "fusion", "settings"):
        (folder / "variants" / axis).symlink_to(ROOT / "variants" / axis)
    (folder / paths.PARAMS).write_text("# read by no test\n")
    configuration = Configuration(folder, overrides, raw=tree)
    prepare(configuration.data("pairs"), task="pairs", project=Project(folder, folder))
    return configuration


def job(folder: Path, language: str, *overrides: str) -> CellJob:
    """Return the job of this model."""
    setup = Setup(configured(folder, language, *overrides), Project(folder, folder), "train")
    return training_job(setup, "s", "translation-additive", 0)


@pytest.mark.parametrize(
    "language, words", [("Chinese", "zh"), ("Japanese", "ja-mecab"), ("Thai", "char"), ("German", "13a")]
)
def test_they_follow_the_script_of_the_target(tmp_path: Path, language: str, words: str) -> None:
    made = job(tmp_path, language)
    assert made.run.identity.params["objective"]["tokenize"] == made.job.parts.objective.tokenize == words
    known = {} if language == "German" else {"languages": {"sentence2": language}}
    assert {key: value for key, value in made.job.manifest.items() if key == "languages"} == known


def test_a_page_takes_them_for_what_was_asked(tmp_path: Path) -> None:
    """The report names runs with other parameters than params.yaml: what the task decides is none."""
    setup = Setup(configured(tmp_path, "Chinese"), Project(tmp_path, tmp_path), "train")
    made = training_job(setup, "s", "translation-additive", 0)
    recorded, asked = flatten(made.run.identity.params), setup.configuration.cell("s", "translation-additive")
    assert [*differing(recorded, flatten(asked.tree))] == ["objective.tokenize"]
    assert not differing(recorded, flatten(asked.completed(made.job.manifest).tree))


def test_the_option_is_part_of_the_run(tmp_path: Path) -> None:
    assert job(tmp_path, "Chinese", "objective.tokenize=char").job.parts.objective.tokenize == "char"


def test_a_run_scores_by_them_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLLOWED, "1")  # no process that sends the records to MLflow
    made = job(tmp_path, "Chinese", "training.budget.number=4")
    output = train(made, output=made.run.output)
    assert "tok:zh" in json.loads((output / "bleu.json").read_text("utf-8"))["signature"]
    assert "tokenize: zh" in (output / "config.yaml").read_text("utf-8")


@pytest.mark.skipif(find_spec("MeCab") is not None, reason="its packages are installed")
def test_words_whose_packages_are_missing_are_named_before_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLLOWED, "1")
    with pytest.raises(InputError, match=r"^objective\.tokenize: BLEU by 'ja-mecab' needs more packages"):
        train(job(tmp_path, "Japanese"), output=None)
