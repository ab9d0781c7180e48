"""Facts of models: a leak between the sentences of a batch is found, and the norm after the last layer is named."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from transformers import (
    AutoModel,
    BertModel,
    DebertaV2Config,
    DistilBertConfig,
    LlamaConfig,
    ModernBertConfig,
    RobertaConfig,
    T5Config,
)

from isoscope.data.tokens import Encoded, Tokenizer
from isoscope.models.encoder import bare
from isoscope.states import model_facts
from isoscope.states.model_facts import COMPARED, difference_in_batch
from probe_material import bert, chosen, gpt2, pieces

SMALL = {"vocab_size": 200, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "pad_token_id": 0}
MADE: dict[str, tuple[Callable[[], Any], str]] = {
    "bert": (bert, "the model has no final norm"),
    "gpt2": (gpt2, "after the final norm (ln_f)"),
    "llama": (
        lambda: AutoModel.from_config(LlamaConfig(**SMALL, intermediate_size=32)),
        "after the final norm (norm)",
    ),
    "modernbert": (
        lambda: AutoModel.from_config(ModernBertConfig(**SMALL, intermediate_size=32)),
        "after the final norm (final_norm)",
    ),
    "t5": (
        lambda: bare(AutoModel.from_config(T5Config(vocab_size=200, d_model=16, d_kv=8, d_ff=32, num_layers=2))),
        "after the final norm (final_layer_norm)",
    ),
    "deberta": (
        lambda: AutoModel.from_config(
            DebertaV2Config(**SMALL, intermediate_size=32, relative_attention=True, norm_rel_ebd="layer_norm")
        ),
        "the model has no final norm",
    ),
    "distilbert": (
        lambda: AutoModel.from_config(DistilBertConfig(vocab_size=200, dim=16, n_layers=2, n_heads=2, hidden_dim=32)),
        "the model has no final norm",
    ),
    "roberta": (
        lambda: AutoModel.from_config(RobertaConfig(**SMALL, intermediate_size=32)),
        "the model has no final norm",
    ),
}


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return pieces(tmp_path_factory.mktemp("tokenizer"))


@pytest.fixture(scope="module")
def encoded(tokenizer: Tokenizer) -> Encoded:
    return chosen(tokenizer).encoded


class OverBatch(nn.Module):
    """A normalisation by the mean of all tokens of a batch."""

    def forward(self, states: Tensor) -> Tensor:
        return states - states.mean((0, 1))


class Maskless(BertModel):
    """A model that attends to padding."""

    def forward(self, attention_mask: Any = None, **given: Any) -> Any:
        return super().forward(attention_mask=torch.ones_like(attention_mask), **given)


def leaking() -> BertModel:
    model = bert()
    model.encoder.layer[0].output.LayerNorm = OverBatch()
    return model


@pytest.mark.parametrize("kind", MADE)
def test_a_model_without_a_leak_is_not_warned_of(
    kind: str, encoded: Encoded, tokenizer: Tokenizer, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.manual_seed(0)
    make, end = MADE[kind]
    facts = model_facts.model_facts(make(), encoded, pad_id=tokenizer.pad_id, bf16=False, name="it")
    assert facts.lines == ["weights: fp32", f"last layer: {end}"]
    assert facts.warning == ""
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("make, dtype", [
    (leaking, torch.float32), (leaking, torch.bfloat16), (lambda: Maskless(bert().config), torch.float32),
])  # fmt: skip
def test_a_leak_is_told_once(
    make: Callable[[], Any],
    dtype: torch.dtype,
    encoded: Encoded,
    tokenizer: Tokenizer,
    capsys: pytest.CaptureFixture[str],
) -> None:
    torch.manual_seed(0)
    model = make().to(dtype)
    facts = model_facts.model_facts(model, encoded, pad_id=tokenizer.pad_id, bf16=False, name="it")
    assert facts.warning.startswith("it: a sentence's states depend on the other sentences of its batch")
    assert capsys.readouterr().err == f"warning: {facts.warning}\n"


def test_bf16_alone_is_no_leak(encoded: Encoded, tokenizer: Tokenizer) -> None:
    for make in (bert, gpt2):
        model, given = make(), {"pad_id": tokenizer.pad_id, "name": "it"}
        assert model_facts.model_facts(model, encoded, bf16=True, **given).warning == ""
        facts = model_facts.model_facts(model.to(torch.bfloat16), encoded, bf16=False, **given)
        assert (facts.lines[0], facts.warning) == ("weights: bf16, as stored", "")


def test_the_difference_is_over_the_layers_largest_value(encoded: Encoded, tokenizer: Tokenizer) -> None:
    """The oracle: the same sentences, through the model itself."""
    model = leaking().eval()
    order = np.argsort(encoded.lengths, kind="stable")
    rows = order[[0, *(round(part * (len(order) - 1) / (COMPARED - 1) - 0.49) for part in (1, 2)), -1]]
    width = int(encoded.lengths[rows].max())
    ids, mask = torch.zeros((2, COMPARED, width), dtype=torch.long)
    for place, row in enumerate(rows):
        ids[place, : encoded.lengths[row]] = torch.from_numpy(encoded.ids[row].astype(np.int64))
        mask[place, : encoded.lengths[row]] = 1
    with torch.no_grad():
        given = {"output_hidden_states": True, "token_type_ids": torch.zeros_like(ids)}
        together = torch.stack(model(input_ids=ids, attention_mask=mask, **given).hidden_states)
        expected = 0.0
        for place, row in enumerate(rows):
            size = encoded.lengths[row]
            alone = torch.stack(model(input_ids=ids[place, :size][None], output_hidden_states=True).hidden_states)[:, 0]
            for one, other in zip(together[:, place, :size], alone, strict=True):
                expected = max(expected, float((one - other).abs().max() / other.abs().max()))
    found = difference_in_batch(model, encoded, pad_id=tokenizer.pad_id, bf16=False)
    assert found == pytest.approx(expected, rel=1e-5)


class Before(nn.Module):
    """A model whose last hidden state is the input of its final norm."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.closing = bert(), nn.LayerNorm(16)
        self.config = self.inner.config

    def forward(self, **given: Any) -> Any:
        found = self.inner(**given)
        self.closing(found.hidden_states[-1])
        return found


def test_states_before_the_final_norm_are_named(encoded: Encoded, tokenizer: Tokenizer) -> None:
    facts = model_facts.model_facts(Before(), encoded, pad_id=tokenizer.pad_id, bf16=False, name="it")
    assert facts.lines[1] == "last layer: before the final norm (closing)"


def test_no_hook_is_left(encoded: Encoded, tokenizer: Tokenizer) -> None:
    model, given = gpt2(), {"pad_id": tokenizer.pad_id, "bf16": False, "name": "it"}
    counts = []
    for _ in range(2):  # transformers leaves hooks of its own in the first pass
        model_facts.model_facts(model, encoded, **given)
        counts.append(sum(len(one._forward_hooks) for one in model.modules()))
    assert counts[0] == counts[1]
