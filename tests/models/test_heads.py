"""Every head of both families: bitwise equal to the library's class, folders, pipelines by name."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tokenizers import ByteLevelBPETokenizer
from transformers import pipeline, set_seed

from fusions import CONV2D, FUSIONS, PAD, VOCABULARY, batch, config, library_model, make
from isoscope import models
from isoscope.data import tokens
from isoscope.models import published
from isoscope.models.build import SINGLE, head_settings
from refused import refused

FAMILIES = ["Bert", "Roberta"]
TASKS = ["SequenceClassification", "TokenClassification", "QuestionAnswering", "MaskedLM", "CausalLM"]
HEADS = [f"{family}For{task}" for family in FAMILIES for task in TASKS]
NAMESAKES = {"BertForCausalLM": "BertLMHeadModel"}
LANGUAGE = ["BertForMaskedLM", "BertForCausalLM", "RobertaForMaskedLM", "RobertaForCausalLM"]
SOME = ["additive", "conv2d-5x5-bias-gate", "fft-residual"]


def ours(head: str, fusion: str, **changes: Any) -> Any:
    return make(getattr(models, f"Fusion{head}"), FUSIONS[fusion], is_decoder=head.endswith("CausalLM"), **changes)


def targets(head: str) -> dict[str, torch.Tensor]:
    if head.endswith("QuestionAnswering"):
        return {"start_positions": torch.tensor([1, 0, 2]), "end_positions": torch.tensor([3, 1, 4])}
    if head.endswith("SequenceClassification"):
        return {"labels": torch.tensor([0, 2, 1])}
    return {"labels": batch()["input_ids"] % (3 if head.endswith("TokenClassification") else VOCABULARY)}


def labels_of(head: str) -> dict[str, int]:
    return {"num_labels": 3} if head.endswith("Classification") else {}


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("head", HEADS)
def test_additive_is_the_librarys_class_bit_for_bit(head: str, attention: str) -> None:
    model = ours(head, "additive", **labels_of(head), attn_implementation=attention)
    kind = getattr(transformers, NAMESAKES.get(head, head))
    theirs = library_model(model, kind, **labels_of(head), attn_implementation=attention)
    inside = {"input_ids": batch()["input_ids"].clone()}
    inside["input_ids"][0, 3] = PAD  # of a RoBERTa it has padding's position, and no later token moves up
    for inputs in (batch(), inside, batch() | {"position_ids": torch.arange(9)[None]}):
        with torch.no_grad():
            a, b = (form(**inputs, **targets(head), output_hidden_states=True) for form in (model, theirs))
        assert a.keys() == b.keys() >= {"loss", "hidden_states"}
        for one, other in zip(a.to_tuple(), b.to_tuple(), strict=True):
            for left, right in zip(one, other, strict=True) if isinstance(one, tuple) else [(one, other)]:
                assert torch.equal(left, right)
    assert model.train()(**batch(), **targets(head)).loss.requires_grad


EVERY_FUSION = ("BertModel", "BertForSequenceClassification", "BertForMaskedLM", "BertForCausalLM")


@pytest.mark.parametrize(
    "head, fusion",
    [
        *((head, fusion) for head in (*HEADS, "BertModel", "RobertaModel") for fusion in SOME),
        *((head, fusion) for head in EVERY_FUSION for fusion in FUSIONS if fusion not in SOME),
    ],
)
def test_a_folder_gives_the_same_model_back(head: str, fusion: str, tmp_path: Path) -> None:
    model = ours(head, fusion, **labels_of(head))
    model.save_pretrained(tmp_path)
    assert "auto_map" not in json.loads((tmp_path / "config.json").read_text())
    written = {"config.json", "generation_config.json", "model.safetensors"}
    assert {file.name for file in tmp_path.glob("*.*")} <= written
    read = transformers.AutoConfig.from_pretrained(tmp_path)
    assert type(read) is type(model.config)
    assert (read.fusion, read.init_std, read.use_cache) == (FUSIONS[fusion], 0.5, False)
    task = head.partition("For")[2]
    again = getattr(transformers, f"AutoModelFor{task}" if task else "AutoModel").from_pretrained(tmp_path)
    assert type(again) is type(model)
    assert again.state_dict().keys() == model.state_dict().keys()
    for key, value in model.state_dict().items():
        assert torch.equal(value, again.state_dict()[key]), key
    with torch.no_grad():
        assert torch.equal(again(**batch())[0], model(**batch())[0])


@pytest.mark.parametrize("fusion", SOME)
@pytest.mark.parametrize("head", LANGUAGE)
def test_language_models_learn_with_tied_tables(head: str, fusion: str) -> None:
    model, inputs = ours(head, fusion).train(), batch((6, 6))
    table = model.get_input_embeddings().weight
    optimizer, losses = torch.optim.Adam(model.parameters(), lr=0.01), []
    set_seed(0)
    for _ in range(15):
        loss = model(**inputs, labels=inputs["input_ids"]).loss
        loss.backward()
        for part, value in model.base_model.embeddings.fusion.named_parameters():
            assert value.grad.abs().max() > 0, part
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.7 * losses[0]
    assert model.get_output_embeddings().weight is table


@pytest.mark.parametrize("head", LANGUAGE)
def test_a_language_model_looks_where_it_should(head: str) -> None:
    kind = getattr(models, f"Fusion{head}")
    with refused("is_decoder"):
        kind(config(CONV2D, kind.config_class, is_decoder=not head.endswith("CausalLM")))


TEXTS = ["a fine film", "a dull film", "not a fine film but a long one"]


def folder(head: str, fusion: str, at: Path, **changes: Any) -> Any:
    """Write a folder as a user has it: a model and a tokenizer, without our names in its code path."""
    if head.startswith("Bert"):
        size = tokens.train_wordpiece(TEXTS, at, vocab_size=60, lowercase=True).vocab_size
    else:
        pieces = ByteLevelBPETokenizer()
        special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
        pieces.train_from_iterator(TEXTS, vocab_size=300, special_tokens=special, show_progress=False)
        pieces.save_model(str(at))
        (at / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "RobertaTokenizer"}))
        size = pieces.get_vocab_size()
    model = ours(head, fusion, vocab_size=size, **changes)
    model.save_pretrained(at)
    return model


@pytest.mark.parametrize("family", FAMILIES)
def test_an_answer_has_two_ends_whatever_the_labels(family: str) -> None:
    """Read off by the caller: transformers 5 has no pipeline for questions any more."""
    model = ours(f"{family}ForQuestionAnswering", "conv2d", num_labels=3)  # as of a checkpoint that classified
    found = model(**batch(), **targets(f"{family}ForQuestionAnswering"))
    assert found.start_logits.shape == found.end_logits.shape == (3, 9)
    assert found.loss.isfinite()


@pytest.mark.parametrize("fusion", ["conv2d-5x5-bias-gate", "fft"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_mask_is_filled_by_name(family: str, fusion: str, tmp_path: Path) -> None:
    model = folder(f"{family}ForMaskedLM", fusion, tmp_path)
    fill = pipeline("fill-mask", str(tmp_path), device="cpu")
    assert type(fill.model) is type(model)
    text = f"a fine {fill.tokenizer.mask_token}"
    inputs = fill.tokenizer(text, return_tensors="pt")
    at = inputs["input_ids"][0].tolist().index(fill.tokenizer.mask_token_id)
    scores = model(**inputs).logits[0, at].softmax(-1).detach()
    found = fill(text)
    assert [one["token"] for one in found] == scores.topk(5).indices.tolist()
    assert found[0]["score"] == pytest.approx(float(scores.max()), abs=1e-6)


@pytest.mark.parametrize("fusion", ["conv2d-5x5-bias-gate", "fft"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_text_is_continued_by_name(family: str, fusion: str, tmp_path: Path) -> None:
    model = folder(f"{family}ForCausalLM", fusion, tmp_path)
    go_on = pipeline("text-generation", str(tmp_path), device="cpu")
    assert type(go_on.model) is type(model)
    inputs = go_on.tokenizer(TEXTS[0], return_tensors="pt")["input_ids"]
    found = go_on(TEXTS[0], max_new_tokens=3, do_sample=False, return_tensors=True)[0]["generated_token_ids"]
    for _ in range(3):
        inputs = torch.cat([inputs, model(inputs).logits[:, -1:].argmax(-1)], 1)
    assert list(found) == inputs[0].tolist()


def test_the_head_of_a_run_that_goes_on_is_kept_if_its_labels_are_the_same(tmp_path: Path) -> None:
    """A run of no update then evaluates its start."""
    drawn = ours("BertForSequenceClassification", "additive", **head_settings(["a", "b"], SINGLE))
    drawn.save_pretrained(tmp_path / "run")
    same, kept = published.continued(tmp_path / "run", labels=["a", "b"], seed=0)
    assert kept
    assert torch.equal(same.classifier.weight, drawn.classifier.weight)
    for labels, problem in (
        (["b", "a"], SINGLE),
        (["a", "b", "c"], SINGLE),
        (["a", "b"], "multi_label_classification"),
    ):
        other, kept = published.continued(tmp_path / "run", labels=labels, problem=problem, seed=0)
        assert not kept
        assert len(other.classifier.weight) == len(labels)
        assert not torch.equal(other.classifier.weight[:2], drawn.classifier.weight)
        assert torch.equal(other.base_model.pooler.dense.weight, drawn.base_model.pooler.dense.weight)
