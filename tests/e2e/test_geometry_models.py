"""`isoscope geometry` on every kind of architecture, with random weights, and `isoscope.geometry` in a notebook.

Values are those of the hidden states that transformers and the formulas give. Invalid requests are refused in one line.
"""

import inspect
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import (
    AutoModel,
    BartConfig,
    BartForConditionalGeneration,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaForSequenceClassification,
    T5Config,
    T5ForConditionalGeneration,
)

import isoscope
from isoscope.base.errors import InputError
from isoscope.notebook import DEFAULTS, geometry
from isoscope.platform.cli import app, look
from isoscope.states.given_checkpoints import find
from probe_material import bert, gpt2, pieces, sentences

FEW = ("--sentences", "40", "--words", "40", "--subsample", "16", "--draws", "3", "--attended", "4", "--folds", "3")
QUICK = ("--analysis", "measures", "--measure", "anisotropy", "--measure", "isoscore", "--measure", "similarity",
         "--measure", "classes")  # fmt: skip
TEXTS = sentences()["sentence"].to_pylist()
LAYERS, WIDTH = 3, 16
VOCABULARY = 400


def bytes_pieces(folder: Path, begin: str | None, end: str | None) -> None:
    """A byte-level tokenizer as RoBERTa, BART (both ends), T5 (an end) and GPT-2 (neither) have them."""
    ends = [one for one in (begin, end) if one]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = [*(["<pad>"] if ends else []), *ends]
    tokenizer.train_from_iterator(
        TEXTS, trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=special, initial_alphabet=alphabet)
    )
    if ends:
        single = " ".join([*([begin] if begin else []), "$A", *([end] if end else [])])
        tokenizer.post_processor = processors.TemplateProcessing(
            single=single, special_tokens=[(one, tokenizer.token_to_id(one)) for one in ends]
        )
    tokenizer.save(str(folder / "tokenizer.json"))


ROBERTA = {"hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": 2, "intermediate_size": 32}
T5 = {"d_model": WIDTH, "d_kv": 8, "d_ff": 32, "num_layers": LAYERS, "num_decoder_layers": 2, "num_heads": 2}
BART = {"d_model": WIDTH, "encoder_layers": LAYERS, "decoder_layers": 2, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32}
GPT2 = {"n_positions": 40, "n_embd": WIDTH, "n_layer": LAYERS, "n_head": 2, "bos_token_id": 0, "eos_token_id": 0}
BUILT: dict[str, Callable[[], PreTrainedModel]] = {
    "roberta": lambda: RobertaForSequenceClassification(
        RobertaConfig(vocab_size=VOCABULARY, max_position_embeddings=42, pad_token_id=1, type_vocab_size=1, **ROBERTA)
    ),
    "t5": lambda: T5ForConditionalGeneration(T5Config(vocab_size=VOCABULARY, **T5)),
    "bart": lambda: BartForConditionalGeneration(
        BartConfig(
            vocab_size=VOCABULARY,
            max_position_embeddings=40,
            pad_token_id=0,
            encoder_attention_heads=2,
            decoder_attention_heads=2,
            **BART,
        )
    ),
    "gpt2": lambda: GPT2LMHeadModel(GPT2Config(vocab_size=VOCABULARY, **GPT2)),
}
ENDS = {"roberta": ("<s>", "</s>"), "t5": (None, "</s>"), "bart": ("<s>", "</s>"), "gpt2": (None, None)}


def save(name: str, folder: Path) -> None:
    """A checkpoint of an architecture in a folder, with a tokenizer that has its ends."""
    BUILT[name]().save_pretrained(folder)
    bytes_pieces(folder, *ENDS[name])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    sentences().to_pandas().to_csv(tmp_path / "texts.csv", index=False)
    torch.manual_seed(0)
    return tmp_path


def made(capsys: pytest.CaptureFixture[str], name: str, *more: str) -> dict[str, Any]:
    """Return the command's JSON for `name` with labels."""
    capsys.readouterr()
    text = ("--text", "texts.csv", "--labels", "label", "--out", "page")
    app(["geometry", name, *text, *FEW, *more, "--json"], standalone_mode=False)
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def own_states(folder: Path) -> tuple[list[NDArray[np.float64]], list[list[int]]]:
    """Compute the last layer's vectors `[T, d]` of each sentence by transformers, and return the tokens."""
    model = AutoModel.from_pretrained(folder).eval()
    encoder = model.get_encoder() if model.config.is_encoder_decoder else model
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    ids = [tokenizer.encode(text).ids for text in TEXTS]
    with torch.no_grad():
        return [
            encoder(input_ids=torch.tensor([one]), output_hidden_states=True).hidden_states[-1][0].double().numpy()
            for one in ids
        ], ids


def formulas(points: NDArray[np.float64]) -> dict[str, float]:
    """a_1, effective rank and mean cosine, from their definitions."""
    raw = np.linalg.svd(points, compute_uv=False) ** 2
    centred = np.linalg.svd(points - points.mean(0), compute_uv=False) ** 2
    shares = np.sqrt(centred[centred > 1e-12 * centred.max()])
    shares /= shares.sum()
    unit = points / np.linalg.norm(points, axis=1, keepdims=True)
    n = len(points)
    return {
        "a_1": raw[0] / raw.sum(),
        "effective_rank": float(np.exp(-(shares * np.log(shares)).sum())),
        "avg_sim": float(((unit @ unit.T).sum() - n) / (n * (n - 1))),
    }


POOLED: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "first": lambda states: states[0],
    "last": lambda states: states[-1],
    "mean": lambda states: states.mean(0),
}


def check(found: dict[str, Any], folder: Path, kinds: list[str]) -> None:
    """The summary is of these kinds of vectors, and its figures are those of the model's own hidden states."""
    states, _ = own_states(folder)
    rows = found["summary"]
    assert [row["vectors"] for row in rows] == kinds
    for row in rows:
        points = np.stack([POOLED[row["vectors"]](one) for one in states])
        assert (row["checkpoint"], row["layer"], row["n"], row["d"]) == (folder.name, LAYERS, len(TEXTS), WIDTH)
        for figure, value in formulas(points).items():
            assert row[figure]["value"] == pytest.approx(value, rel=1e-3, abs=1e-4), figure
            assert row[figure]["twin"] != row[figure]["value"]
        assert 0.0 <= row["linear_separability"]["value"] <= 1.0
        assert abs(row["avg_sim"]["noise"]) < 0.1
    assert Path(found["page"]).is_file()


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "name, kinds, asked", [("roberta", ["first", "mean"], ["last"]), ("t5", ["mean"], ["first", "last"])]
)
def test_an_encoder_is_looked_at_through_its_cls_where_it_has_one(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str, kinds: list[str], asked: list[str]
) -> None:
    save(name, folder / name)
    check(made(capsys, name, *QUICK), folder / name, kinds)
    table = pd.read_parquet("page/geometry.parquet")
    assert (set(table["vectors"]), set(table["layer"])) == ({*kinds, "words"}, {0, 1, 2, 3})
    assert name == "roberta" or "[CLS]:" not in Path("page/index.html").read_text("utf-8")
    words = [word for vectors in asked for word in ("--vectors", vectors)]
    check(made(capsys, name, *QUICK, *words), folder / name, asked)
    said = "t5: no [CLS]: its tokenizer has none, so `first` is a sentence&#39;s first word."
    assert (said in Path("page/index.html").read_text("utf-8")) == (name == "t5")


@pytest.mark.exhaustive
def test_a_bart_gives_every_analysis_of_its_encoder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save("bart", folder / "bart")
    found = made(capsys, "bart")
    check(found, folder / "bart", ["first", "mean"])
    heads = pd.read_parquet("page/attention.parquet")
    assert set(heads["layer"]) == {1, 2, 3}, "the encoder's, of which there are more than of the decoder's"
    probes = pd.read_parquet("page/probing.parquet").groupby("task")["score"].max()
    assert probes["label"] > 0.9, "every sentence of a class ends in words of its own"
    assert len(list(Path("page").glob("*.parquet"))) == len(found["tables"]) >= 14


def test_a_decoder_is_looked_at_through_its_last_token(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save("gpt2", folder / "gpt2")
    found = made(capsys, "gpt2", *QUICK, "--analysis", "probing")
    check(found, folder / "gpt2", ["last", "mean"])
    probes = pd.read_parquet("page/probing.parquet")
    first = probes[(probes["task"] == "first token") & (probes["vectors"] == "mean") & (probes["layer"] == 0)]
    _, ids = own_states(folder / "gpt2")
    begins = pd.Series([one[0] for one in ids]).value_counts(normalize=True)  # no [CLS] stands before it
    assert begins.iloc[0] == begins.iloc[1] == 0.25
    assert first["chance"].iloc[0] == 0.5, "one of the two most frequent first words, or another"
    check(made(capsys, "gpt2", *QUICK, "--vectors", "first", "--vectors", "mean"), folder / "gpt2", ["mean"])


def test_checkpoints_of_one_study_are_told_apart_and_left_out_rows_said(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    models = [folder / f"a-study-with-a-long-name/models/additive/seed-{seed}/checkpoint" for seed in (0, 1)]
    for model in models:
        model.mkdir(parents=True)
        save("roberta", model)
    with Path("texts.csv").open("a", encoding="utf-8") as file:
        file.write(",0\n,1\n")
    text = ("--text", "texts.csv", "--out", "page")
    capsys.readouterr()
    app(["geometry", *map(str, models), *text, *FEW, *QUICK[:4], "--json"], standalone_mode=False)
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert found["checkpoints"] == {f"seed-{seed}": str(models[seed]) for seed in (0, 1)}
    assert [row["checkpoint"] for row in found["summary"]] == ["seed-0", "seed-0", "seed-1", "seed-1"]
    assert "linear_separability" not in found["summary"][0], "there are no labels"
    line = "texts.csv, column 'sentence': 2 of 34 rows are empty; left out"
    assert said.err.splitlines()[0] == f"isoscope: {line}"
    assert found["left_out"] == line
    drawing = Path("page/figures/isotropy-first.svg").read_text("utf-8")
    assert all(f">seed-{seed}</text>" in drawing for seed in (0, 1))
    with pytest.raises(InputError, match="are the same folder; give it once"):
        app(["geometry", str(models[0]), f"{models[0]}/", *text], standalone_mode=False)


def test_checkpoints_with_equal_weights_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy that was meant to be another step, also with another configuration or other metadata."""
    monkeypatch.chdir(tmp_path)
    for name, seed in (("step-1", 0), ("step-2", 0), ("step-3", 1)):
        bert(seed).save_pretrained(name)
    settings = json.loads(Path("step-2/config.json").read_text("utf-8"))
    Path("step-2/config.json").write_text(json.dumps(settings | {"note": "another step"}), "utf-8")
    weights = load_file("step-2/model.safetensors")
    save_file(dict(reversed(weights.items())), "step-2/model.safetensors", {"format": "pt", "step": "2"})
    capsys.readouterr()
    find(["step-1", "step-2", "step-3"])
    assert capsys.readouterr().err == "warning: step-1 and step-2 have equal weights; is one of them a copy?\n"
    find(["step-1", "step-3"])
    assert capsys.readouterr().err == ""


LITTLE: dict[str, Any] = {"measures": ["isoscore"], "words": 20, "subsample": 16, "draws": 2}


@pytest.fixture
def tokenizer(tmp_path: Path) -> PreTrainedTokenizerFast:
    pieces(tmp_path)
    return PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"), pad_token="[PAD]")


def test_model_and_tokenizer_are_left_as_they_were(tokenizer: PreTrainedTokenizerFast) -> None:
    def state() -> tuple[Any, ...]:
        return backend.padding, backend.truncation, [part.training for part in model.modules()]

    model = bert().train()
    model.encoder.layer[0].eval()
    backend = tokenizer.backend_tokenizer
    backend.enable_padding(direction="left", pad_id=3, pad_token="[PAD]", length=12)
    backend.enable_truncation(9, stride=2, direction="left")
    before = state()
    geometry(model, TEXTS, tokenizer=tokenizer, **LITTLE)
    assert state() == before
    with pytest.raises(InputError, match="leaves no room for text"):
        geometry(model, TEXTS, tokenizer=tokenizer, max_length=2, **LITTLE)
    assert state() == before
    backend.no_padding()
    backend.no_truncation()
    geometry(model, TEXTS, tokenizer=tokenizer, **LITTLE)
    assert backend.padding is backend.truncation is None


def test_texts_longer_than_the_model_takes_are_cut(tokenizer: PreTrainedTokenizerFast) -> None:
    long = [f"{text} {' '.join(TEXTS)}" for text in TEXTS]
    table = isoscope.geometry(bert(), long, tokenizer=tokenizer, **LITTLE)
    assert table["value"].notna().any()


def test_a_causal_models_first_token_is_left_out_and_a_twin_is_given_where_asked_for(
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    table = geometry(gpt2(), TEXTS, tokenizer=tokenizer, twin=True, **LITTLE)
    assert set(table["vectors"]) == {"last", "mean", "words"}
    assert set(table["snapshot"]) == {"model", "random"}
    own, twin = (table.loc[table["snapshot"] == name, "value"].to_numpy() for name in ("model", "random"))
    assert len(own) == len(twin)
    assert (own != twin).all()
    assert set(geometry(bert(), TEXTS, tokenizer=tokenizer, **LITTLE)["vectors"]) == {"first", "mean", "words"}


def test_what_cannot_be_measured_is_said(tokenizer: PreTrainedTokenizerFast) -> None:
    with pytest.raises(InputError, match="'classes' needs labels"):
        geometry(bert(), TEXTS, tokenizer=tokenizer, measures=["classes"])
    with pytest.raises(InputError, match="labels: 2 for 32 texts"):
        geometry(bert(), TEXTS, tokenizer=tokenizer, labels=[0, 1])
    for lost in (None, float("nan"), 7):
        with pytest.raises(InputError, match=r"texts: row 32: .*: expected a text in each row"):
            geometry(bert(), [*TEXTS, lost], tokenizer=tokenizer)
    with pytest.raises(InputError, match="labels: row 3: has no label"):
        geometry(bert(), TEXTS, tokenizer=tokenizer, labels=["a", "b", "a", None, *"ab" * 14])


def test_texts_may_be_a_column_of_a_table_or_an_array(tokenizer: PreTrainedTokenizerFast) -> None:
    model = bert()
    found = [
        geometry(model, given, tokenizer=tokenizer, **LITTLE) for given in (TEXTS, pd.Series(TEXTS), np.array(TEXTS))
    ]
    for other in found[1:]:
        pd.testing.assert_frame_equal(other, found[0])


TOOLS = ("sentences", "attended", "folds", "alignment", "device", "precision", "threads")


def test_the_command_line_and_the_notebook_begin_with_the_same() -> None:
    command, notebook = (inspect.signature(one).parameters for one in (look.geometry, geometry))
    # Lists on the command line, empty for the usual; and how many sentences of a block, which nobody chooses.
    asked = ("analyses", "measures", "vectors", "transforms", "block")
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
