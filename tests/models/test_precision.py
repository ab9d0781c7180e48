"""Weights that are stored in bf16 stay in bf16 for states, and are fp32 for training."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel, LlamaConfig, LlamaModel

from isoscope.data.checkpoints import kept_in_bf16
from isoscope.models.encoder import load_encoder, random_encoder, twin
from isoscope.states import hidden_states as passes
from probe_material import bert, chosen, gpt2, pieces


def llama() -> Any:
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    return LlamaModel(LlamaConfig(vocab_size=200, pad_token_id=0, **sizes))


def dtypes(model: Any) -> set[torch.dtype]:
    return {value.dtype for value in model.parameters()}


@pytest.mark.parametrize("make", [bert, gpt2, llama])
def test_states_are_those_of_transformers_in_bf16_bit_by_bit(make: Any, tmp_path: Path) -> None:
    make().to(torch.bfloat16).save_pretrained(tmp_path / "model")
    model = load_encoder(tmp_path / "model", as_stored=True)
    assert dtypes(model) == {torch.bfloat16}
    tokenizer = pieces(tmp_path)
    probe = chosen(tokenizer)
    found = passes.hidden_states(model, probe, pad_id=tokenizer.pad_id, batch_size=1)
    reference = AutoModel.from_pretrained(tmp_path / "model", dtype=torch.bfloat16).eval()
    for row, ids in enumerate(probe.encoded.ids):
        with torch.no_grad():
            given = torch.from_numpy(ids.astype(np.int64))[None]
            layers = reference(
                input_ids=given, attention_mask=torch.ones_like(given), output_hidden_states=True
            ).hidden_states
        expected = torch.cat(layers).float().numpy()
        assert found["first"].dtype == np.float32
        assert np.array_equal(found["first"][:, row], expected[:, 0])
        assert np.array_equal(found["last"][:, row], expected[:, -1])


def test_training_and_other_checkpoints_are_in_fp32(tmp_path: Path) -> None:
    bert().to(torch.bfloat16).save_pretrained(tmp_path / "low")
    bert().save_pretrained(tmp_path / "whole")
    assert dtypes(load_encoder(tmp_path / "low")) == {torch.float32}
    assert dtypes(load_encoder(tmp_path / "whole", as_stored=True)) == {torch.float32}
    assert dtypes(random_encoder(tmp_path / "low", seed=1, as_stored=True)) == {torch.bfloat16}
    assert dtypes(random_encoder(tmp_path / "low", seed=1)) == {torch.float32}
    assert dtypes(twin(bert().to(torch.bfloat16), seed=1)) == {torch.bfloat16}


def test_a_checkpoint_in_both_precisions_is_not_rounded(tmp_path: Path) -> None:
    bert().to(torch.bfloat16).save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    name = "embeddings.LayerNorm.weight"
    save_file(weights | {name: weights[name].float() + 1e-4}, tmp_path / "model.safetensors", {"format": "pt"})
    assert not kept_in_bf16(tmp_path)
    model = load_encoder(tmp_path, as_stored=True)
    assert torch.equal(model.embeddings.LayerNorm.weight, weights[name].float() + 1e-4)
