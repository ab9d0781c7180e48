"""The model card of a published checkpoint: what it says, and what it leaves unchanged."""

import json
import shutil
from pathlib import Path

import pytest
import transformers
from huggingface_hub import ModelCard

from isoscope.base.atomic_files import write_whole
from isoscope.platform.runs.card import auto_class
from isoscope.platform.runs.output_files import restored
from isoscope.platform.runs.provenance import dvc_md5
from isoscope.platform.runs.run import FOLLOWED, Run
from own_runs import finish, make, publish

POINTS = [
    {"name": "train/loss", "value": 0.9, "step": 4, "epoch": 1},
    {"name": "validation/accuracy", "value": 0.5, "step": 4, "epoch": 1},
    {"name": "validation/accuracy", "value": 0.7512345678, "step": 8, "epoch": 2},
    {"name": "test/accuracy", "value": 0.75, "step": 8, "epoch": 2},
]
PARAMS = {
    "model": {
        "fusion": {"kind": "conv2d"},
        "encoder": {"kind": "pretrained", "checkpoint": "own/bert", "revision": "1a2b"},
    },
    "objective": {"kind": "classification"},
    "penalty": {"kind": "none"},
}


def checkpoint(folder: Path, epoch: int) -> None:
    (folder / "config.json").write_text(json.dumps({"architectures": ["FusionBertForSequenceClassification"]}))
    (folder / "model.safetensors").write_bytes(bytes([epoch]) * 100)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A finished run with two checkpoints."""
    monkeypatch.setenv(FOLLOWED, "1")
    data = tmp_path / "data/processed/words"
    data.mkdir(parents=True)
    about = {"source": "local:words.csv", "licence": "CC|BY 4.0", "revision": None}
    (data / "manifest.json").write_text(json.dumps(about))

    def write(folder: Path) -> None:
        for epoch in (1, 2):
            write_whole(folder / f"checkpoints/epoch-{epoch}", lambda to, at=epoch: checkpoint(to, at), "checkpoint")
        (folder / "metrics.jsonl").write_text("".join(json.dumps(point) + "\n" for point in POINTS))

    return finish(make(tmp_path, arm="conv2d", seed=3, params=PARAMS, inputs={"data": "1"}), write)


def published(run: Run) -> Path:
    return publish(run, run.project.folder / "models/fusion/conv2d/seed-3")


def test_a_card_says_what_the_model_is_and_how_to_load_it(run: Run) -> None:
    cards = [ModelCard.load(published(run) / f"checkpoints/epoch-{epoch}/README.md") for epoch in (1, 2)]
    assert cards[0].data.to_dict()["pipeline_tag"] == "text-classification"
    text = cards[1].text
    for part in (
        "# conv2d, seed 3: epoch 2",
        "import isoscope.models  #",
        "AutoModelForSequenceClassification.from_pretrained(",
        "does not recognize this architecture",
        "without the fusion",
        "| data | local:words.csv |",
        "| licence of the data | CC\\|BY 4.0 |",
        "| fusion | conv2d |",
        "| start | pretrained, own/bert, 1a2b |",
        f"| digest | {run.digest} |",
        "| validation/accuracy | 0.751235 |",
        "| test/accuracy | 0.75 |",
    ):
        assert part in text
    assert "train/loss" not in text
    assert "| validation/accuracy | 0.5 |" in cards[0].text
    assert "test/" not in cards[0].text


def test_a_card_changes_neither_the_stored_run_nor_the_checkpoints_hash(run: Run) -> None:
    stored = dvc_md5(run.output)
    target = published(run)
    assert dvc_md5(run.output) == stored
    first = dvc_md5(target)
    assert dvc_md5(published(run)) == first  # the same bytes again
    hashes = [dvc_md5(run.output / f"checkpoints/epoch-{epoch}", leave_out={"manifest.json"}) for epoch in (1, 2)]
    found = restored(target, root=run.project.folder, t=0)
    assert [one.md5 for one in found.checkpoints] == hashes
    shutil.rmtree(run.output)
    assert Run(run.project, run.identity).finished  # taken back from where it was published
    assert not list(run.output.rglob("README.md"))
    assert dvc_md5(run.output, leave_out={"manifest.json"}) == dvc_md5(target, leave_out={"README.md", "config.yaml"})


@pytest.mark.parametrize(
    "architecture, auto",
    [
        ("FusionBertForSequenceClassification", "AutoModelForSequenceClassification"),
        ("FusionRobertaForMaskedLM", "AutoModelForMaskedLM"),
        ("FusionBertForCausalLM", "AutoModelForCausalLM"),
        ("FusionBertForTranslation", "AutoModelForSeq2SeqLM"),
        ("FusionBertHybrid", "AutoModelForSeq2SeqLM"),
        ("FusionBertModel", "AutoModel"),
        ("ModernBertForSequenceClassification", "AutoModelForSequenceClassification"),
        ("GPT2LMHeadModel", "AutoModelForCausalLM"),
    ],
)
def test_the_auto_class_of_an_architecture(architecture: str, auto: str) -> None:
    assert auto_class(architecture) == auto
    assert hasattr(transformers, auto)
