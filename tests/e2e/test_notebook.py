"""`isoscope.geometry` in a notebook leaves the caller's model and tokenizer unchanged."""

import inspect
import shutil
from pathlib import Path
from typing import Any

import pytest
from transformers import PreTrainedTokenizerFast

import isoscope
from isoscope.base.errors import InputError
from isoscope.notebook import DEFAULTS, geometry
from isoscope.platform.cli import look
from probe_material import bert, gpt2, pieces, sentences

TEXTS = sentences()["sentence"].to_pylist()
FEW: dict[str, Any] = {"measures": ["isoscore"], "words": 20, "subsample": 16, "draws": 2}


@pytest.fixture
def tokenizer(tmp_path: Path) -> PreTrainedTokenizerFast:
    pieces(tmp_path)
    return PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"), pad_token="[PAD]")


def test_model_and_tokenizer_are_left_as_they_were(tokenizer: PreTrainedTokenizerFast) -> None:
    model = bert().train()
    model.encoder.layer[0].eval()
    backend = tokenizer.backend_tokenizer
    backend.enable_padding(direction="left", pad_id=3, pad_token="[PAD]", length=12)
    backend.enable_truncation(9, stride=2, direction="left")
    before = backend.padding, backend.truncation, [part.training for part in model.modules()]
    geometry(model, TEXTS, tokenizer=tokenizer, **FEW)
    assert (backend.padding, backend.truncation, [part.training for part in model.modules()]) == before
    with pytest.raises(InputError, match="leaves no room for text"):
        geometry(model, TEXTS, tokenizer=tokenizer, max_length=2, **FEW)
    assert (backend.padding, backend.truncation, [part.training for part in model.modules()]) == before
    backend.no_padding()
    backend.no_truncation()
    geometry(model, TEXTS, tokenizer=tokenizer, **FEW)
    assert backend.padding is backend.truncation is None


def test_texts_longer_than_the_model_takes_are_cut(tokenizer: PreTrainedTokenizerFast) -> None:
    long = [f"{text} {' '.join(TEXTS)}" for text in TEXTS]
    table = isoscope.geometry(bert(), long, tokenizer=tokenizer, **FEW)
    assert table["value"].notna().any()


def test_a_causal_models_first_token_is_left_out_and_a_twin_is_given_where_asked_for(
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    table = geometry(gpt2(), TEXTS, tokenizer=tokenizer, twin=True, **FEW)
    assert set(table["vectors"]) == {"last", "mean", "words"}
    assert set(table["snapshot"]) == {"model", "random"}
    own, twin = (table.loc[table["snapshot"] == name, "value"].to_numpy() for name in ("model", "random"))
    assert len(own) == len(twin)
    assert (own != twin).all()
    assert set(geometry(bert(), TEXTS, tokenizer=tokenizer, **FEW)["vectors"]) == {"first", "mean", "words"}


def test_what_cannot_be_measured_is_said(tokenizer: PreTrainedTokenizerFast) -> None:
    with pytest.raises(InputError, match="'classes' needs labels"):
        geometry(bert(), TEXTS, tokenizer=tokenizer, measures=["classes"])
    with pytest.raises(InputError, match="labels: 2 for 32 texts"):
        geometry(bert(), TEXTS, tokenizer=tokenizer, labels=[0, 1])


TOOLS = ("sentences", "attended", "folds", "alignment", "device", "precision", "threads")


def test_the_command_line_and_the_notebook_begin_with_the_same() -> None:
    command, notebook = (inspect.signature(one).parameters for one in (look.geometry, geometry))
    # Lists on the command line, empty for the usual; and how many sentences of a block, which nobody chooses.
    asked = ("analyses", "measures", "vectors", "block")
    known = {name: value for name, value in DEFAULTS._asdict().items() if name not in asked}
    assert {name: command[name].default for name in known} == known
    # The notebook is handed its sentences, and its one table is that of the measures.
    shared = {name: value for name, value in known.items() if name not in TOOLS}
    assert {name: notebook[name].default for name in shared} == shared


@pytest.mark.parametrize(
    "study, said",
    [
        ("fusoin", "studies.fusoin: no such study; did you mean 'fusion'?"),
        ("mystudy", "studies.mystudy: no such study; known: fusion, isotropy, dynamics, half_depth, aligned, hybrid"),
        ("fusion", "does not exist; run: isoscope repro"),
    ],
)
def test_a_study_without_tables_is_told_what_makes_them(tmp_path: Path, study: str, said: str) -> None:
    root = Path(__file__).parents[2]
    for name in ("params.yaml", "dvc.yaml"):
        shutil.copyfile(root / name, tmp_path / name)
    shutil.copytree(root / "variants", tmp_path / "variants")
    with pytest.raises(InputError) as caught:
        isoscope.load(study, project=tmp_path)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
