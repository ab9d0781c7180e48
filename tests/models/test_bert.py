"""The models as Hugging Face models: bitwise equal to BertModel, padding, causality, heads, folders."""

import inspect
import json
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from transformers import (
    BertConfig,
    BertModel,
    pipeline,
)

from fusions import CONV2D, FFT, FUSIONS, TABLELESS, batch, config, make
from isoscope.base.errors import InputError
from isoscope.data import tokens
from isoscope.models import (
    FusionBertForSequenceClassification,
    FusionBertModel,
    FusionRobertaModel,
)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_additive_is_bert_bit_for_bit(attention: str) -> None:
    ours = make(FusionBertModel, FUSIONS["additive"], attn_implementation=attention)
    plain = {key: value for key, value in ours.config.to_dict().items() if key in BertConfig.__dataclass_fields__}
    theirs = BertModel(BertConfig(**plain, attn_implementation=attention)).eval()
    assert theirs.load_state_dict(ours.state_dict(), strict=True)
    for inputs in (batch(), {"input_ids": batch()["input_ids"]}, batch((5, 5))):
        with torch.no_grad():
            a, b = ours(**inputs, output_hidden_states=True), theirs(**inputs, output_hidden_states=True)
        assert len(a.hidden_states) == 3
        for one, other in zip((*a.hidden_states, a.pooler_output), (*b.hidden_states, b.pooler_output), strict=True):
            assert torch.equal(one, other)


def test_attention_is_sdpa_unless_asked() -> None:
    model = make(FusionBertModel, FUSIONS["additive"])
    assert model.config._attn_implementation == "sdpa"
    model.set_attn_implementation("eager")
    seen = model(**batch(), output_attentions=True).attentions
    assert [tuple(one.shape) for one in seen] == [(3, 4, 9, 9)] * 2


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


def test_more_tokens_than_positions() -> None:
    model = make(FusionBertModel, FUSIONS["additive"])
    with pytest.raises(InputError, match="25 tokens, but the position table has only 24 rows"):
        model(torch.ones(1, 25, dtype=torch.long))
    with pytest.raises(ValueError, match="either input_ids or inputs_embeds"):
        model()


def test_embedded_words_can_be_given() -> None:
    model, inputs = make(FusionBertModel, CONV2D), batch()
    words = model.get_input_embeddings()(inputs["input_ids"])
    whole = model(**inputs).last_hidden_state
    del inputs["input_ids"]
    assert torch.equal(model(**inputs, inputs_embeds=words).last_hidden_state, whole)


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


def test_one_seed_gives_the_same_encoder_whatever_the_fusion() -> None:
    models = {name: make(FusionBertForSequenceClassification, fusion) for name, fusion in FUSIONS.items()}
    first = models["additive"].state_dict()
    for name, model in models.items():
        for key, value in first.items():
            if not (name in TABLELESS and "position_embeddings" in key):
                assert torch.equal(model.state_dict()[key], value), key
    kernels = [make(FusionBertForSequenceClassification, CONV2D).bert.embeddings.fusion.weight for _ in range(2)]
    assert torch.equal(*kernels)
    other = FusionBertForSequenceClassification(config(CONV2D)).bert.embeddings.fusion.weight  # the stream went on
    assert not torch.equal(other, kernels[0])


def test_a_config_shows_and_compares_all_it_holds() -> None:
    small = config(CONV2D)
    held = json.loads(str(small).removeprefix("FusionBertConfig "))
    assert held.items() >= {"fusion": CONV2D, "init_std": 0.5, "hidden_size": 16, "num_attention_heads": 4}.items()
    assert small == config(CONV2D)
    assert small != config(CONV2D, hidden_size=32)
    assert small != config(FFT)


@pytest.mark.parametrize("kind", [FusionBertModel, FusionRobertaModel])
def test_the_signature_names_what_may_be_asked(kind: Any) -> None:
    def asked(of: Any) -> set[str]:
        (spelt,) = get_args(inspect.signature(of.forward).parameters["kwargs"].annotation)
        return set(spelt.__annotations__)

    assert asked(kind) == asked(BertModel) >= {"output_attentions", "output_hidden_states"}
