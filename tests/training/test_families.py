"""Every family of encoders and decoders trains from a folder: with its own embedding block, and with a fusion."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import AutoModel, AutoModelForSequenceClassification

from families import DECODERS, FAMILIES, FUSED, LLAMA, published
from fusions import FUSIONS
from isoscope.data import tokens
from isoscope.data.checkpoints import checkpoint_digest
from isoscope.data.plain import Texts
from isoscope.models import exported
from isoscope.models import published as published_models
from isoscope.models.components import blocks, members
from isoscope.models.encoder import bare, causal, load_classifier, longest
from isoscope.objectives import causal as causal_objective
from isoscope.objectives import masked, regression
from isoscope.states.checkpoint_tables import geometry
from isoscope.states.choices import Settings
from isoscope.states.given_checkpoints import Checkpoint
from isoscope.states.hidden_states import head
from refused import refused
from training_runs import ENTROPY, Killed, completed, files, kill_in, logged, make_loop, texts

NATIVE = {"kind": "native"}
MEAN = ENTROPY | {"points": {"layer": -1, "vectors": "mean", "most": None}}
BRIEF: dict[str, Any] = {"rows": 24, "epochs": 1, "checkpoint_every": 2, "keep": "all", "fusion": NATIVE}
WATCH = {"layer": -1, "vectors": "mean", "sample": 20, "clusters": 2}
ALLOCATED = {
    "sentences": 16, "folds": 2, "estimator": "simpson", "tolerance": None, "most_splits": 2, "dense": 1, "chords": 2,
    "heads": True, "minibatch": False, "parts": True,
}  # fmt: skip


@pytest.fixture(params=FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def folder(family: str, tmp_path: Path) -> Path:
    return published(family, tmp_path / "published" / family)


def test_a_penalised_run_is_killed_and_resumed_bit_by_bit(folder: Path, tmp_path: Path) -> None:
    asked = BRIEF | {"published": folder, "penalty": MEAN, "watch": WATCH, "allocation": ALLOCATED}
    whole = completed(tmp_path / "whole", **asked)
    assert len(logged(whole, "step/penalty")) == 3
    assert max(logged(whole, "step/penalty_gradient_norm")) > 0
    allocated = sum(logged(whole, "allocation/closing"))
    assert np.isfinite(allocated)
    with pytest.raises(Killed):
        make_loop(tmp_path / "resumed", stop=kill_in(3), **asked).fit()
    completed(tmp_path / "resumed", **asked)
    assert files(tmp_path / "whole/work") == files(tmp_path / "resumed/work")


def test_what_was_trained_is_exported_and_looked_at(folder: Path, tmp_path: Path) -> None:
    loop = completed(tmp_path / "run", published=folder, **BRIEF)
    kept = tmp_path / "run/work/checkpoints/epoch-1"
    model = exported.read_model(kept)
    (tmp_path / "export").mkdir()
    one, reasons = exported.write(
        model, kept, tmp_path / "export", loader="AutoModelForSequenceClassification", form=None
    )
    (checked,) = exported.check([one])
    assert checked.difference == 0
    assert not one.code
    assert "transformers" in reasons[0]
    table, settings = texts(40, 5), Settings(analyses=("measures",), measures=("isoscore",))
    checkpoints = [Checkpoint("given", tmp_path / "export", checkpoint_digest(tmp_path / "export"))]
    whole = Texts(table, ("negative", "positive"), "", "made", len(table))
    tables, _ = geometry(checkpoints, whole, settings._replace(subsample=16, draws=2, attended=4), tmp_path / "cache")
    last = tables["geometry"].query("vectors == 'mean' and layer == 2 and step.notna()", engine="python")
    assert len(last) > 0
    assert last["value"].notna().all()
    trained = load_classifier(kept)
    for name, value in loop.raw_model.named_parameters():
        assert torch.equal(value, dict(trained.named_parameters())[name]), name
    reads = bare(trained.base_model)
    ids = torch.tensor([[7, 8, 9, 10]])
    with torch.no_grad():
        theirs = bare(AutoModelForSequenceClassification.from_pretrained(kept).base_model.eval())
        assert torch.equal(reads(input_ids=ids).last_hidden_state, theirs(input_ids=ids).last_hidden_state)


def test_it_starts_as_transformers_loads_it(folder: Path, family: str) -> None:
    model = published_models.classifier(folder, labels=["a", "b", "c"], fusion=NATIVE, seed=0, pad_id=0)
    plain = AutoModel.from_pretrained(folder).eval()
    reads, theirs = bare(model.base_model), bare(plain)
    ids = torch.tensor([[7, 8, 9, 10, 11]])
    with torch.no_grad():
        one, other = (part(input_ids=ids, output_hidden_states=True).hidden_states for part in (reads, theirs))
    assert all(map(torch.equal, one, other))
    assert causal(reads, ids[0].numpy()) == (family in DECODERS)
    again, seeded = (
        published_models.classifier(folder, labels=["a", "b", "c"], fusion=NATIVE, seed=seed, pad_id=0)
        for seed in (0, 1)
    )
    heads = [
        torch.cat([value.flatten() for name, value in one.named_parameters() if "encoder" not in name])
        for one in (model, again, seeded)
    ]
    assert torch.equal(heads[0], heads[1])
    assert not torch.equal(heads[0], heads[2])


def test_every_parameter_has_a_component(folder: Path) -> None:
    """Queries, keys and values of all heads have as many numbers as their matrices, also where one matrix has all."""
    model = published_models.classifier(folder, labels=["a", "b"], fusion=NATIVE, seed=0, pad_id=0)
    found = members(model)
    parts = {group.component for one in found for group in one.groups}
    assert {"emb", "query", "key", "value", "out", "W1", "W2", "LayerNorm"} <= parts
    for one in found:
        flat = one.arranged(one.parameter)
        assert flat.numel() % len(one.groups) == 0
        assert torch.equal(one.view(flat), one.parameter), one.name
    held = [name for block in blocks(model).values() for name in block]
    assert sorted(held) == sorted(name for name, _ in model.named_parameters())


def test_the_head_of_the_rank_of_a_decision_is_the_models_own(folder: Path, family: str) -> None:
    """ELECTRA's has RoBERTa's names and another activation."""
    model = published_models.classifier(folder, labels=["a", "b"], fusion=NATIVE, seed=0, pad_id=0)
    with torch.no_grad():
        for value in model.parameters():
            value.mul_(3.0)  # a tanh of small numbers is nearly any activation
    assert bool(head(model)) == (family in ("bert", "roberta", "camembert", "xlm-roberta", "mpnet"))


@pytest.mark.parametrize("family", DECODERS)
def test_a_decoder_reads_the_token_before_the_texts_own_padding(family: str, folder: Path) -> None:
    """The padding of its configuration is another token than that of its tokenizer."""
    settings = json.loads((folder / "config.json").read_text("utf-8"))
    (folder / "config.json").write_text(json.dumps(settings | {"pad_token_id": 9}), "utf-8")
    model = published_models.classifier(folder, labels=["a", "b"], fusion=NATIVE, seed=0, pad_id=1).eval()
    texts, padded = torch.tensor([[7, 8, 5]]), torch.tensor([[7, 8, 5, 1, 1]])
    with torch.no_grad():
        alone = model(input_ids=texts).logits
        beside = model(input_ids=padded, attention_mask=torch.tensor([[1, 1, 1, 0, 0]])).logits
    torch.testing.assert_close(alone, beside, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_dropout_does_not_hide_that_a_model_is_causal(family: str, folder: Path) -> None:
    model = published_models.classifier(folder, labels=["a", "b"], fusion=NATIVE, seed=0, pad_id=0).train()
    assert causal(bare(model.base_model), np.arange(1, 5, dtype=np.int32)) == (family == "gpt2")
    assert model.base_model.training


@pytest.mark.parametrize("family", [*DECODERS, "modernbert"])
def test_a_packed_head_is_its_own(family: str, tmp_path: Path) -> None:
    """Zeroing a head's queries makes its attention uniform: the head's group is what that head alone reads."""
    model = AutoModel.from_pretrained(published(family, tmp_path), attn_implementation="eager").eval()
    ids = torch.tensor([[7, 8, 9, 10, 11]])
    with torch.no_grad():
        before = model(input_ids=ids, output_attentions=True).attentions[0]
        for one in members(model):
            chosen = [number for number, group in enumerate(one.groups) if group[1:4] == (0, "query", 1)]
            if chosen:
                flat = one.arranged(one.parameter).clone().view(len(one.groups), -1)
                flat[chosen] = 0
                one.parameter.copy_(one.view(flat.flatten()))
        after = model(input_ids=ids, output_attentions=True).attentions[0]
    uniform = [bool((after[0, head, -1] - 0.2).abs().max() < 1e-6) for head in range(4)]
    assert uniform == [False, True, False, False]
    assert torch.equal(before[0, [0, 2, 3]], after[0, [0, 2, 3]])


LANGUAGE = [name for name in FAMILIES if name != "t5"]
UNTIED = ("llama", "qwen2")
"""Families whose published models predict with a table of their own, as tests/families.py makes them."""


@pytest.mark.parametrize("family", LANGUAGE)
def test_language_models_go_on(family: str, folder: Path, tmp_path: Path) -> None:
    """The loss at the start is that of transformers' model at the same tokens."""

    def make(task: Any, tied: bool = family not in UNTIED) -> Any:
        if family in DECODERS:
            return causal_objective.Causal(task, side="source", share=1.0, tied=tied)
        return masked.Masked(task, side="source", rate=0.3, masked=0.8, random=0.1, tied=tied)

    with refused(f"objective.tied: {family in UNTIED}, but the model to start from has {family not in UNTIED}; set"):
        make_loop(tmp_path / "other", published=folder, make=lambda task: make(task, family in UNTIED), **BRIEF)
    asked = BRIEF | {"published": folder, "make": make, "select": "loss", "dropout": 0.0}
    loop = completed(tmp_path / "run", **asked)
    objective, model = loop.objective, make_loop(tmp_path / "again", **asked).raw_model.eval()
    rows = np.arange(6)
    batch = {name: torch.from_numpy(value) for name, value in objective.batch("test", rows, None).items()}
    found = objective.forward(model, batch).loss
    own = {name: value for name, value in batch.items() if name in ("input_ids", "attention_mask")}
    logits = model(**own).logits.flatten(0, 1)[batch["predicted"]]
    expected = nn.functional.cross_entropy(logits.float(), batch["labels"], reduction="sum")
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-4)
    assert np.isfinite(logged(loop, "test/loss")).all()


@pytest.mark.parametrize("family", ["gpt2", "llama", "modernbert"])
def test_a_score_is_learned(family: str, folder: Path, tmp_path: Path) -> None:
    loop = completed(
        tmp_path / "run", published=folder, **BRIEF, make=regression.objective, table=scored, select="loss"
    )
    assert np.isfinite(logged(loop, "test/loss")).all()


def scored(rows: int, seed: int) -> Any:
    table = texts(rows, seed)
    return table.set_column(1, "score", [[float(len(one.as_py())) for one in table["sentence"]]])


@pytest.mark.parametrize("family", FUSED)
@pytest.mark.parametrize("fusion", ["additive", "conv2d-identity", "fft-residual"])
def test_a_fusion_that_adds_is_transformers_model(family: str, fusion: str, folder: Path) -> None:
    """Additive: bit by bit. An identity kernel and a closed gate: up to the rounding of sums."""
    given: dict[str, Any] = {"labels": ["a", "b"], "seed": 0, "pad_id": 0}
    model = published_models.classifier(folder, fusion=FUSIONS[fusion], **given).eval()
    plain = published_models.classifier(folder, fusion=NATIVE, **given).eval()
    pad = tokens.load(folder).pad_id
    ids = torch.tensor([[7, 8, 9, 10, 11, 12], [9, 10, 11, pad, pad, pad]])
    inputs = {"input_ids": ids, "attention_mask": torch.tensor([[1] * 6, [1] * 3 + [0] * 3])}
    with torch.no_grad():
        one, other = (part.base_model(**inputs, output_hidden_states=True).hidden_states for part in (model, plain))
    for here, there in zip(one, other, strict=True):
        mask = inputs["attention_mask"].bool()
        if fusion == "conv2d-identity":
            torch.testing.assert_close(here[mask], there[mask], rtol=0, atol=2e-6)
        else:
            assert torch.equal(here[mask], there[mask])


@pytest.mark.parametrize("family", FUSED)
def test_a_kernel_sees_no_padding(family: str, folder: Path) -> None:
    """States of a text alone and beside a longer one are equal; without the mask they are not."""
    model = published_models.classifier(
        folder, fusion=FUSIONS["conv2d-5x5-bias-gate"], labels=["a", "b"], seed=0, pad_id=0
    ).eval()
    fusion = model.base_model.embeddings.fusion
    nn.init.constant_(fusion.gate, 0.7)
    pad = tokens.load(folder).pad_id
    ids = torch.tensor([[7, 8, 9, 10, 11, 12], [9, 10, 11, pad, pad, pad]])
    mask = torch.tensor([[1] * 6, [1] * 3 + [0] * 3])
    with torch.no_grad():
        alone = model.base_model(input_ids=ids[1:, :3]).last_hidden_state[0]
        beside = model.base_model(input_ids=ids, attention_mask=mask).last_hidden_state[1, :3]
        unmasked = model.base_model(input_ids=ids).last_hidden_state[1, :3]
    torch.testing.assert_close(beside, alone, rtol=0, atol=1e-5)
    assert not torch.allclose(unmasked, alone, rtol=0, atol=1e-3)


@pytest.mark.parametrize("family", FUSED)
def test_a_fused_family_trains_and_is_read_again(family: str, folder: Path, tmp_path: Path) -> None:
    asked = BRIEF | {"published": folder, "fusion": FUSIONS["conv2d-residual"]}
    loop = completed(tmp_path / "run", **asked)
    kept = tmp_path / "run/work/checkpoints/epoch-1"
    again = load_classifier(kept)
    assert type(again) is type(loop.raw_model)
    for name, value in loop.raw_model.state_dict().items():
        assert torch.equal(value, again.state_dict()[name]), name
    (tmp_path / "export").mkdir()
    one, _ = exported.write(
        exported.read_model(kept), kept, tmp_path / "export", loader="AutoModelForSequenceClassification", form="code"
    )
    (checked,) = exported.check([one])
    assert checked.difference == 0


ROTARY = r"its positions rotate queries and keys \(RoPE\), so no position table meets the word table; set native"


@pytest.mark.parametrize(
    "family, why",
    [
        ("modernbert", ROTARY),
        ("llama", ROTARY),
        ("qwen2", ROTARY),
        ("deberta-v2", "its positions are relative, between pairs of tokens"),
        ("gpt2", "it has no embedding block of a word and a position table"),
    ],
)
def test_a_fusion_without_tables_is_refused(family: str, why: str, folder: Path) -> None:
    with refused(f"model.fusion.kind: 'fft', but checkpoint {folder} is of the model type '{family}': {why}"):
        published_models.classifier(folder, fusion=FUSIONS["fft"], labels=["a", "b"], seed=0)


def test_the_longest_text_is_found_by_running_the_model(folder: Path) -> None:
    model = published_models.classifier(folder, fusion=NATIVE, labels=["a", "b"], seed=0, pad_id=0)
    endless = "t5" in str(folder)
    assert longest(model.base_model, 40) == (40 if endless else 24)
    if not endless:
        with refused("model.max_length: 30, but the checkpoint takes 24 tokens; set it to 24"):
            published_models.check_fits(model, 30)


@pytest.mark.parametrize("fusion", [NATIVE, FUSIONS["additive"]], ids=["native", "additive"])
def test_a_checkpoint_with_the_names_of_2018_is_trained_to_the_end(fusion: dict[str, Any], tmp_path: Path) -> None:
    """BERT's first files call weight and bias of a LayerNorm gamma and beta; the run's own files have today's names."""
    weights = load_file(published("bert", tmp_path / "p") / "model.safetensors")
    old = {name.replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta") for name in weights}
    renamed = {
        name.replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta"): value
        for name, value in weights.items()
    }
    assert old - {*weights}
    save_file(renamed, tmp_path / "p/model.safetensors", metadata={"format": "pt"})
    loop = completed(tmp_path / "run", published=tmp_path / "p", **BRIEF | {"fusion": fusion})
    kept = tmp_path / "run/work/checkpoints/epoch-1"
    assert {*load_file(kept / "model.safetensors")} <= {*loop.raw_model.state_dict()}
    trained = dict(load_classifier(kept).named_parameters())
    assert all(torch.equal(value, trained[name]) for name, value in loop.raw_model.named_parameters())


def test_experts_that_a_checkpoint_stores_one_by_one_are_trained_to_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = LLAMA | {"num_local_experts": 2, "num_experts_per_tok": 1}
    monkeypatch.setitem(FAMILIES, "mixtral", ("Mixtral", sizes, "bos"))
    monkeypatch.setattr("families.DECODERS", (*DECODERS, "mixtral"))
    asked = BRIEF | {"published": published("mixtral", tmp_path / "p")}
    whole = completed(tmp_path / "whole", **asked)
    with pytest.raises(Killed):
        make_loop(tmp_path / "resumed", stop=kill_in(3), **asked).fit()
    completed(tmp_path / "resumed", **asked)
    assert files(tmp_path / "whole/work") == files(tmp_path / "resumed/work")
    trained = dict(load_classifier(tmp_path / "whole/work/checkpoints/epoch-1").named_parameters())
    assert all(torch.equal(value, trained[name]) for name, value in whole.raw_model.named_parameters())


def test_objectives_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    def causal_lm(task: Any) -> Any:
        return causal_objective.Causal(task, side="source", share=1.0, tied=True)

    def masked_lm(task: Any) -> Any:
        return masked.Masked(task, side="source", rate=0.3, masked=0.8, random=0.1, tied=True)

    modern, gpt = (published(name, tmp_path / name) for name in ("modernbert", "gpt2"))
    with refused(f"checkpoint {modern}: transformers has no causal language model of the model type 'modernbert'"):
        make_loop(tmp_path / "a", published=modern, **BRIEF, make=causal_lm, select="loss")
    with refused("gpt2: it does not put its special tokens before and after a text"):
        make_loop(tmp_path / "b", published=gpt, **BRIEF, make=masked_lm, select="loss")
    with refused("model.fusion.kind: 'native' leaves the embedding block of a checkpoint, and an encoder from scratch"):
        make_loop(tmp_path / "c", fusion=NATIVE)
