"""Which tokens a token depends on: never on padding, and in a causal model never on later tokens."""

from typing import Any

import pytest
import torch
from transformers import BertModel

from fusions import CONV2D, FUSIONS, PAD, POSITIONS, VOCABULARY, WIDTH, batch, library_model, make
from isoscope.models import (
    FusionBertForCausalLM,
    FusionBertForMaskedLM,
    FusionBertForSequenceClassification,
    FusionBertModel,
    FusionRobertaForSequenceClassification,
    FusionRobertaModel,
    embeddings,
)
from refused import refused

KERNELS = [name for name in FUSIONS if name.startswith("conv2d")]


@pytest.mark.parametrize("name", FUSIONS)
@pytest.mark.parametrize(
    "kind, atol", [(FusionBertForSequenceClassification, 1e-5), (FusionRobertaForSequenceClassification, 2e-6)]
)
def test_padding_changes_no_logit(kind: Any, atol: float, name: str) -> None:
    """A BERT may have any token at padding, a RoBERTa has padding there."""
    model, inputs = make(kind, FUSIONS[name]), batch(padded=kind is FusionRobertaForSequenceClassification)
    with torch.no_grad():
        together = model(**inputs).logits
        for row, length in enumerate(inputs["attention_mask"].sum(1)):
            alone = model(**{key: value[row : row + 1, :length] for key, value in inputs.items()}).logits
            torch.testing.assert_close(together[row : row + 1], alone, rtol=0, atol=atol)


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
        with refused(r"attention_mask of shape \[2, 1, 6, 6\]"):
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


PACKED = torch.cat([torch.arange(20), torch.arange(10)])[None]  # two texts in a row, longer than the table


@pytest.mark.parametrize("types", [False, True], ids=["one type", "types"])
def test_packed_texts_may_outgrow_the_table_of_positions(types: bool) -> None:
    assert PACKED.shape[1] > POSITIONS
    model, inputs = make(FusionBertModel, FUSIONS["additive"]), batch((30,)) | {"position_ids": PACKED}
    if not types:
        del inputs["token_type_ids"]
    theirs = library_model(model, BertModel)
    assert torch.equal(model(**inputs).last_hidden_state, theirs(**inputs).last_hidden_state)


@pytest.mark.parametrize("kind, first", [(FusionBertModel, 0), (FusionRobertaModel, PAD + 1)])
@pytest.mark.parametrize("name", FUSIONS)
def test_packed_texts_are_refused_where_neighbours_are_read(name: str, kind: type, first: int) -> None:
    block = make(kind, FUSIONS[name]).embeddings
    ids, each = batch((30,))["input_ids"], (slice(0, 20), slice(20, 30))
    if name.startswith("conv2d"):
        with refused("position_ids: row 0 restarts at token 20"):
            block(ids, position_ids=PACKED + first)
    else:
        alone = torch.cat([block(ids[:, text], position_ids=PACKED[:, text] + first) for text in each], 1)
        torch.testing.assert_close(block(ids, position_ids=PACKED + first), alone, rtol=0, atol=1e-6)


@pytest.mark.parametrize("padding", [0, 7, 23])
@pytest.mark.parametrize("gap", [(0, 1), (6, 7), (8, 9)], ids=["left", "between", "right"])
def test_padding_has_any_position_and_hides_no_border(gap: tuple[int, int], padding: int) -> None:
    block = make(FusionBertModel, CONV2D).embeddings
    mask = torch.ones(1, 9, dtype=torch.long)
    mask[:, slice(*gap)] = 0
    rising = torch.arange(9)[None].masked_fill(mask == 0, padding)
    block(batch((9,))["input_ids"], position_ids=rising, attention_mask=mask)
    packed = torch.tensor([[0, 1, 2, 3, 4, 5, 6, 0, 1]]).masked_fill(mask == 0, padding)
    with refused("position_ids: row 0 restarts at token 7"):
        block(batch((9,))["input_ids"], position_ids=packed, attention_mask=mask)


def test_a_robertas_own_positions_are_taken() -> None:
    block = make(FusionRobertaModel, CONV2D).embeddings
    ids = torch.tensor([[5, 6, PAD, 7, PAD, PAD], [PAD, 5, 6, 7, 8, 9]])
    own = block.rows(ids, block.word_embeddings(ids), 0)
    assert torch.equal(block(ids, position_ids=own), block(ids))


def test_compiled_code_refuses_packed_texts_too() -> None:
    block = make(FusionBertModel, CONV2D).embeddings.requires_grad_(False)
    compiled = torch.compile(block, fullgraph=True, backend="eager")
    ids, rising = batch((9,))["input_ids"], torch.arange(9)[None]
    assert torch.equal(compiled(ids, position_ids=rising), block(ids, position_ids=rising))
    with pytest.raises(RuntimeError, match="position_ids: a fusion reads neighbouring tokens"):
        compiled(ids, position_ids=rising % 5)
    torch._dynamo.reset()
