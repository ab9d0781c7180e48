"""What a token may know of others: nothing of padding, and in a causal model nothing of later tokens."""

import pytest
import torch

from fusions import CONV2D, FUSIONS, VOCABULARY, WIDTH, batch, make
from isoscope.errors import InputError
from isoscope.models import (
    FusionBertForCausalLM,
    FusionBertForMaskedLM,
    FusionBertForSequenceClassification,
    FusionBertModel,
    embeddings,
)

KERNELS = [name for name in FUSIONS if name.startswith("conv2d")]


@pytest.mark.parametrize("name", FUSIONS)
def test_padding_changes_no_logit(name: str) -> None:
    model, inputs = make(FusionBertForSequenceClassification, FUSIONS[name]), batch()
    with torch.no_grad():
        together = model(**inputs).logits
        for row, length in enumerate(inputs["attention_mask"].sum(1)):
            alone = model(**{key: value[row : row + 1, :length] for key, value in inputs.items()}).logits
            torch.testing.assert_close(together[row : row + 1], alone, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", KERNELS)
def test_without_zeroing_padding_would_change_logits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, inputs = make(FusionBertForSequenceClassification, FUSIONS[name]), batch()
    if name == "conv2d-identity":
        torch.nn.init.normal_(model.bert.embeddings.fusion.weight)
    with torch.no_grad():
        right = model(**inputs).logits
        monkeypatch.setattr(embeddings, "_column", lambda mask, word: torch.ones(*word.shape[:2], 1))
        leaking = model(**inputs).logits
    moved = (leaking - right).abs().amax(1)
    assert moved[0] == 0  # no padding there
    assert (moved[1:] > 1e-3).all()


def test_padding_on_the_left_changes_no_logit_either() -> None:
    model, inputs = make(FusionBertForSequenceClassification, CONV2D), batch((5,))
    left = {key: torch.cat([torch.full((1, 3), 7 * (key == "input_ids")), value], 1) for key, value in inputs.items()}
    positions = torch.cat([torch.zeros(1, 3, dtype=torch.long), torch.arange(5)[None]], 1)
    # BERT classifies the first token, here padding: compared are the hidden states of the sentence itself
    with torch.no_grad():
        alone = model.bert(**inputs).last_hidden_state
        padded = model.bert(**left, position_ids=positions).last_hidden_state[:, 3:]
    torch.testing.assert_close(padded, alone, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", FUSIONS)
def test_no_mask_means_no_padding(name: str) -> None:
    model, inputs = make(FusionBertForSequenceClassification, FUSIONS[name]), batch((6, 6))
    whole = model(**inputs).logits
    del inputs["attention_mask"]
    torch.testing.assert_close(model(**inputs).logits, whole, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", FUSIONS)
def test_a_mask_over_pairs_of_tokens_says_nothing_about_padding(name: str) -> None:
    model, inputs = make(FusionBertModel, FUSIONS[name]), batch((6, 6))
    inputs["attention_mask"] = torch.ones(2, 1, 6, 6, dtype=torch.bool)
    if name.startswith("conv2d"):
        with pytest.raises(InputError, match=r"attention_mask of shape \[2, 1, 6, 6\]"):
            model(**inputs)
    else:
        assert model(**inputs).last_hidden_state.shape == (2, 6, WIDTH)


@pytest.mark.parametrize("name", FUSIONS)
@pytest.mark.parametrize("at", [2, 8])
def test_a_causal_model_sees_no_later_token(name: str, at: int) -> None:
    model, inputs = make(FusionBertForCausalLM, FUSIONS[name], is_decoder=True), batch((9, 9))
    changed = inputs | {"input_ids": inputs["input_ids"].clone()}
    changed["input_ids"][:, at] = (changed["input_ids"][:, at] % (VOCABULARY - 1)) + 1
    with torch.no_grad():
        before, after = model(**inputs).logits, model(**changed).logits
        assert torch.equal(before[:, :at], after[:, :at])
        assert (before[:, at] - after[:, at]).abs().max() > 1e-3
        two_way = make(FusionBertForMaskedLM, FUSIONS[name])
        assert (two_way(**inputs).logits[:, :at] - two_way(**changed).logits[:, :at]).abs().max() > 1e-3


def test_a_centred_kernel_would_leak_into_a_causal_model() -> None:
    model, inputs = make(FusionBertForCausalLM, CONV2D, is_decoder=True), batch((9, 9))
    model.bert.embeddings.fusion.past = 1
    changed = inputs | {"input_ids": inputs["input_ids"].clone()}
    changed["input_ids"][:, 4] += 1
    assert (model(**inputs).logits[:, 3] - model(**changed).logits[:, 3]).abs().max() > 1e-3
