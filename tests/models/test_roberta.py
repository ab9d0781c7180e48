"""RoBERTa with a choice of fusion: bitwise equal to RobertaModel, positions, classifier, folders, freezing."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import (
    RobertaConfig,
    RobertaForMaskedLM,
    RobertaForSequenceClassification,
    RobertaForTokenClassification,
    RobertaModel,
)

from fusions import FUSIONS, TABLELESS, batch
from isoscope.base.errors import InputError
from isoscope.models import FusionRobertaConfig, FusionRobertaForSequenceClassification, build
from isoscope.models.encoder import positions
from isoscope.states.hidden_states import head

PAD, LABELS = 1, ["bad", "good"]
PLAIN = {
    "vocab_size": 50,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 32,
    "max_position_embeddings": 26,
    "type_vocab_size": 1,
    "initializer_range": 0.3,
    "pad_token_id": PAD,
}


def texts(lengths: tuple[int, ...] = (9, 4, 6)) -> dict[str, Tensor]:
    """Token ids and mask, padded on the right, no text token being the padding's."""
    inputs = batch(lengths)
    ids = torch.where(inputs["input_ids"] == PAD, 7, inputs["input_ids"])
    return {
        "input_ids": torch.where(inputs["attention_mask"].bool(), ids, PAD),
        "attention_mask": inputs["attention_mask"],
    }


def make(fusion: dict[str, Any]) -> FusionRobertaForSequenceClassification:
    torch.manual_seed(0)
    config = FusionRobertaConfig(**PLAIN, init_std=0.5, fusion=fusion, id2label=dict(enumerate(LABELS)))
    model = FusionRobertaForSequenceClassification(config).eval()
    if (gate := getattr(model.roberta.embeddings.fusion, "gate", None)) is not None:
        torch.nn.init.constant_(gate, 0.7)
    return model


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as published: a RoBERTa with the head of its pre-training."""
    folder = tmp_path_factory.mktemp("roberta")
    torch.manual_seed(5)
    RobertaForMaskedLM(RobertaConfig(**PLAIN)).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("name", FUSIONS)
def test_padding_changes_nothing(name: str) -> None:
    model = make(FUSIONS[name])
    together = model(**texts((9, 4))).logits[1]
    alone = model(**{key: value[1:, :4] for key, value in texts((9, 4)).items()}).logits[0]
    torch.testing.assert_close(together, alone, rtol=0, atol=2e-6)


def test_positions_begin_behind_the_padding() -> None:
    model = make(FUSIONS["additive"])
    assert positions(model) == 24
    model(torch.full((1, 24), 7))
    with pytest.raises(InputError, match="25 tokens, but the position table has only 24 rows"):
        model(torch.full((1, 25), 7))
    assert (model.roberta.embeddings.position_embeddings.weight[PAD] == 0).all()


@pytest.mark.parametrize("name", FUSIONS)
def test_a_checkpoint_lacks_only_fusion_and_classifier(name: str, plain: Path) -> None:
    model = build.from_checkpoint(plain, fusion=FUSIONS[name], labels=LABELS, seed=0)
    held = load_file(plain / "model.safetensors")
    state = model.state_dict()
    new = {key for key in state if key not in held}
    classifier = {f"classifier.{part}.{kind}" for part in ("dense", "out_proj") for kind in ("weight", "bias")}
    fusion = {f"roberta.embeddings.fusion.{key}" for key in model.roberta.embeddings.fusion.state_dict()}
    angles = {"roberta.embeddings.position_embeddings.angles"} if name in TABLELESS else set()
    assert new == classifier | fusion | angles
    assert all(torch.equal(value, state[key]) for key, value in held.items() if key in state)


@pytest.mark.parametrize("kind", [RobertaModel, RobertaForSequenceClassification, RobertaForTokenClassification])
def test_heads_and_poolers_are_dropped(kind: Any, tmp_path: Path) -> None:
    theirs = kind(RobertaConfig(**PLAIN, num_labels=3)).eval()
    theirs.save_pretrained(tmp_path)
    ours = build.from_checkpoint(tmp_path, fusion=FUSIONS["additive"], labels=LABELS, seed=0).eval()
    last = ours.roberta(**texts()).last_hidden_state
    assert torch.equal(last, theirs.base_model(**texts()).last_hidden_state)
    assert ours.classifier.out_proj.weight.shape == (2, 16)


SCRATCH: dict[str, Any] = {
    "family": "roberta",
    "vocab_size": 50,
    "hidden_size": 16,
    "layers": 2,
    "heads": 4,
    "intermediate_size": 32,
    "activation": "gelu",
    "norm": "post",
    "positions": "learned",
    "max_positions": 24,
    "dropout": 0.1,
    "attention_dropout": 0.2,
    "init_std": 0.5,
    "initializer_range": 0.3,
    "labels": LABELS,
    "pad_id": 2,
    "seed": 0,
}


def test_scratch_has_room_for_as_many_tokens_as_asked() -> None:
    for fusion in FUSIONS.values():
        model = build.from_scratch(fusion=fusion, **SCRATCH).eval()
        assert positions(model) == 24
        assert model(**batch((24, 5))).logits.shape == (2, 2)


def test_the_head_is_read_out_of_the_weights() -> None:
    model = make(FUSIONS["additive"])
    parts = head(model.state_dict())
    points = model.roberta(**texts()).last_hidden_state[:, 0].detach().numpy()
    inner = torch.tanh(torch.tensor(points @ parts["head_pooler"].T + parts["head_pooler_bias"])).numpy()
    scores = inner @ parts["head_classifier"].T + parts["head_classifier_bias"]
    torch.testing.assert_close(torch.tensor(scores), model(**texts()).logits.detach(), rtol=0, atol=1e-5)
