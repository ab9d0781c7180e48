"""RoBERTa with a choice of fusion: where its positions begin, and its classifier read out of the weights."""

import pytest
import torch

from fusions import FUSIONS, PAD, SCRATCH, batch, make
from isoscope.models import FusionRobertaForSequenceClassification, build
from isoscope.models.encoder import positions
from isoscope.states.hidden_states import head
from refused import refused


def test_positions_begin_behind_the_padding() -> None:
    model = make(FusionRobertaForSequenceClassification, FUSIONS["additive"])
    assert positions(model) == 24
    model(torch.full((1, 24), 7))
    with refused("25 tokens, but the position table has only 24 rows"):
        model(torch.full((1, 25), 7))
    assert (model.roberta.embeddings.position_embeddings.weight[PAD] == 0).all()


@pytest.mark.parametrize("fusion", FUSIONS.values(), ids=FUSIONS)
def test_scratch_has_room_for_as_many_tokens_as_asked(fusion: dict[str, object]) -> None:
    model = build.from_scratch(
        fusion=fusion, labels=["bad", "good"], pad_id=2, **SCRATCH | {"family": "roberta"}
    ).eval()
    assert positions(model) == 24
    assert model(**batch((24, 5))).logits.shape == (2, 2)


def test_the_head_is_read_out_of_the_weights() -> None:
    model, texts = make(FusionRobertaForSequenceClassification, FUSIONS["additive"]), batch(padded=True)
    parts = head(model)
    points = model.roberta(**texts).last_hidden_state[:, 0].detach().numpy()
    inner = torch.tanh(torch.tensor(points @ parts["head_pooler"].T + parts["head_pooler_bias"])).numpy()
    scores = inner @ parts["head_classifier"].T + parts["head_classifier_bias"]
    torch.testing.assert_close(torch.tensor(scores), model(**texts).logits.detach(), rtol=0, atol=1e-5)
