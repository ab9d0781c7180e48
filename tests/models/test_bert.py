"""The models as Hugging Face models: bitwise equal to BertModel, padding, causality, heads, folders."""

import inspect
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from transformers import BertConfig, BertModel, MarianConfig, pipeline
from transformers.models.bert import modeling_bert
from transformers.models.marian.modeling_marian import MarianEncoder, MarianSinusoidalPositionalEmbedding

from fusions import CONV2D, FFT, FUSIONS, POSITIONS, VOCABULARY, WIDTH, batch, config, make
from isoscope.data import tokens
from isoscope.models import (
    FusionBertForSequenceClassification,
    FusionBertModel,
    FusionRobertaModel,
)
from isoscope.models.fused import _standing_in
from refused import refused


@pytest.mark.parametrize("name", ["conv2d", "conv2d-5x5-bias-gate", "fft", "fft-residual"])
def test_autocast_stops_at_the_embeddings(name: str) -> None:
    model, inputs = make(FusionBertForSequenceClassification, FUSIONS[name]).train(), batch()
    for part in model.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
    seen: list[torch.Tensor] = []
    model.bert.embeddings.LayerNorm.register_forward_pre_hook(lambda module, given: seen.append(given[0]))
    exact = model(**inputs).logits
    with torch.autocast("cpu", torch.bfloat16):
        rounded = model(**inputs).logits
    assert seen[1].dtype == torch.float32
    assert torch.equal(*seen)
    assert rounded.dtype == torch.bfloat16
    torch.testing.assert_close(rounded.float(), exact, rtol=0.1, atol=0.1)
    rounded.float().sum().backward()
    assert all(value.grad.dtype == torch.float32 for value in model.bert.embeddings.fusion.parameters())


def test_the_block_of_marian_is_that_of_transformers() -> None:
    """Marian has the sines of all frequencies first, then the cosines; here they alternate."""
    block = make(FusionBertModel, FUSIONS["marian"], positions="sinusoidal").eval().embeddings
    theirs = MarianConfig(vocab_size=VOCABULARY, d_model=WIDTH, scale_embedding=True, pad_token_id=0)
    positions = MarianSinusoidalPositionalEmbedding(POSITIONS, WIDTH).create_weight()
    ids, order = torch.arange(1, POSITIONS + 1)[None], [*range(0, WIDTH, 2), *range(1, WIDTH, 2)]
    with torch.no_grad():
        expected = MarianEncoder(theirs).embed_scale * block.word_embeddings(ids)[..., order] + positions
        assert torch.allclose(block(ids)[..., order], expected, rtol=0, atol=1e-6)
    assert {name for name, _ in block.named_parameters()} == {"word_embeddings.weight", "token_type_embeddings.weight"}


def test_a_plain_model_that_is_built_meanwhile_is_plain() -> None:
    """A head finds the fusion's encoder by its name in transformers' module; another thread may build its own there."""
    with _standing_in(BertModel, FusionBertModel):
        plain = modeling_bert.BertForSequenceClassification(BertConfig(num_hidden_layers=1, hidden_size=12))
    assert type(plain.bert) is BertModel


def test_more_tokens_than_positions() -> None:
    model = make(FusionBertModel, FUSIONS["additive"])
    with refused("25 tokens, but the position table has only 24 rows"):
        model(torch.ones(1, 25, dtype=torch.long))
    with pytest.raises(ValueError, match="exactly one of input_ids or inputs_embeds"):
        model()


@pytest.mark.parametrize("name", ["additive", "conv2d-residual", "fft"])
def test_a_folder_classifies_text_by_name(name: str, tmp_path: Path) -> None:
    texts = ["a fine film", "a dull film", "not a fine film but a long one"]
    vocabulary = tokens.train_wordpiece(texts, tmp_path, vocab_size=60, lowercase=True).vocab_size
    labels = {"id2label": {0: "bad", 1: "good"}, "label2id": {"bad": 0, "good": 1}}
    model = make(FusionBertForSequenceClassification, FUSIONS[name], vocab_size=vocabulary, **labels)
    model.save_pretrained(tmp_path)
    classify = pipeline("text-classification", str(tmp_path), device="cpu")
    assert isinstance(classify.model, FusionBertForSequenceClassification)
    for text in texts:
        inputs = classify.tokenizer(text, return_tensors="pt")
        assert inputs["input_ids"].tolist()[0] == tokens.load(tmp_path).backend.encode(text).ids
        scores = model(**inputs).logits.softmax(-1)[0].detach()
        (answer,) = classify(text)
        assert answer["label"] == labels["id2label"][int(scores.argmax())]
        assert answer["score"] == pytest.approx(float(scores.max()), abs=1e-6)


def test_each_weight_starts_as_the_config_says() -> None:
    large = {"vocab_size": 2000, "hidden_size": 64, "intermediate_size": 128, "max_position_embeddings": 512}
    model = FusionBertForSequenceClassification(
        config(CONV2D | {"bias": True}, **large, init_std=0.5, initializer_range=0.05, pad_token_id=3)
    )
    matrices = 0
    for name, value in model.named_parameters():
        if ".fusion." in name:
            assert value.detach().abs().max() <= 1 / 18**0.5
        elif "LayerNorm" in name:
            assert (value == (1 if name.endswith("weight") else 0)).all(), name
        elif name.endswith("bias"):
            assert (value == 0).all(), name
        else:
            expected = 0.5 if "_embeddings" in name else 0.05
            assert float(value.detach().std()) == pytest.approx(expected, rel=0.15), name
            matrices += 1
    assert matrices == 3 + 2 * 6 + 2
    assert (model.bert.embeddings.word_embeddings.weight[3] == 0).all()


def test_a_zero_range_is_a_range() -> None:
    model = FusionBertForSequenceClassification(config(FFT, initializer_range=0.0))
    assert (model.classifier.weight == 0).all()  # the library would read 0 as "its own default"


@pytest.mark.parametrize("kind", [FusionBertModel, FusionRobertaModel])
def test_the_signature_names_what_may_be_asked(kind: Any) -> None:
    def asked(of: Any) -> set[str]:
        (spelt,) = get_args(inspect.signature(of.forward).parameters["kwargs"].annotation)
        return set(spelt.__annotations__)

    assert asked(kind) == asked(BertModel) >= {"output_attentions", "output_hidden_states"}
