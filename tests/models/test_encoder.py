"""The text encoder of any checkpoint: encoders, decoders, encoder-decoders; other models are refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import (
    BartConfig,
    BartModel,
    MPNetConfig,
    MPNetModel,
    OPTConfig,
    OPTModel,
    T5Config,
    T5EncoderModel,
    T5Model,
    UMT5Config,
    UMT5Model,
    Wav2Vec2Config,
    Wav2Vec2Model,
    XLNetConfig,
    XLNetModel,
)

from isoscope.models.encoder import bare, causal, load_encoder, longest, positions, random_encoder, twin
from isoscope.states.hidden_states import attention, hidden_states
from probe_material import bert, chosen, gpt2, pieces
from refused import refused

HEADS = {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32}
BERT = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
IDS = np.arange(5, 15, dtype=np.int32)


def t5(kind: Any = T5Model) -> Any:
    torch.manual_seed(0)
    return kind(T5Config(vocab_size=200, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2)).eval()


def bart() -> BartModel:
    torch.manual_seed(0)
    sizes = {"d_model": 16, "encoder_layers": 2, "decoder_layers": 1, "max_position_embeddings": 40}
    return BartModel(BartConfig(vocab_size=200, **sizes, **HEADS)).eval()


@pytest.mark.parametrize("make", [t5, bart, lambda: t5(T5EncoderModel)], ids=["t5", "bart", "t5's encoder alone"])
def test_of_an_encoder_decoder_the_encoder_is_read(make: Any, tmp_path: Path) -> None:
    model = make()
    model.save_pretrained(tmp_path)
    tokenizer = pieces(tmp_path)
    probe = chosen(tokenizer)
    loaded = load_encoder(tmp_path)
    found = hidden_states(loaded, probe, pad_id=tokenizer.pad_id, batch_size=8)
    assert found["mean"].shape == (3, len(probe.rows), 16)
    ids = torch.from_numpy(probe.encoded.ids[0][None].astype(np.int64))
    with torch.no_grad():
        own = model.get_encoder()(input_ids=ids).last_hidden_state[0, 0].numpy()
    np.testing.assert_allclose(found["first"][-1, 0], own, atol=1e-5)
    assert "attention_entropy" in attention(loaded, probe, pad_id=tokenizer.pad_id, batch_size=8)
    other = hidden_states(random_encoder(tmp_path, seed=1), probe, pad_id=tokenizer.pad_id, batch_size=8)
    assert other["mean"].shape == found["mean"].shape
    assert not np.allclose(other["mean"], found["mean"])


def test_positions_are_those_of_the_part_that_reads() -> None:
    assert positions(bare(bart())) == 40
    assert positions(bare(t5())) > 1000, "relative positions have no end"
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2}
    for kind, config in ((T5Model, T5Config), (T5EncoderModel, T5Config), (UMT5Model, UMT5Config)):
        published = kind(config(vocab_size=200, n_positions=512, **sizes))
        assert positions(bare(published)) > 1000, "the length of T5's training texts is no limit"
    assert positions(gpt2()) == 40, "a table has an end"
    model = MPNetModel(MPNetConfig(vocab_size=200, max_position_embeddings=40, **BERT))
    assert positions(model) == 38, "relative positions, and a table whose first two rows no text has"


def test_other_families_are_read_or_refused_in_one_line(tmp_path: Path) -> None:
    """XLNet states -1 positions; OPT of 350 million weights ends in narrower states; Funnel's call has other names."""
    tokenizer = pieces(tmp_path)
    sizes: dict[str, Any] = {"vocab_size": 200, "d_model": 16, "n_layer": 2, "n_head": 2, "d_inner": 32}
    xlnet = XLNetModel(XLNetConfig(**sizes)).eval()
    assert longest(xlnet, 50) == 50
    options: dict[str, Any] = {"pad_id": tokenizer.pad_id, "batch_size": 8}
    assert hidden_states(xlnet, chosen(tokenizer), **options)["mean"].shape[0] == 3
    opt = OPTModel(
        OPTConfig(
            vocab_size=200,
            hidden_size=16,
            word_embed_proj_dim=8,
            num_hidden_layers=2,
            ffn_dim=32,
            num_attention_heads=2,
            max_position_embeddings=64,
        )
    ).eval()
    with refused("OPTModel: its layers differ in shape: "):
        hidden_states(opt, chosen(tokenizer), **options)


def test_what_takes_no_text_is_refused(tmp_path: Path) -> None:
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    convolutions = {"conv_dim": (8,), "conv_kernel": (4,), "conv_stride": (2,), "num_feat_extract_layers": 1}
    positional = {"num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2}
    model = Wav2Vec2Model(Wav2Vec2Config(vocab_size=32, **sizes, **convolutions, **positional))
    model.save_pretrained(tmp_path)
    with refused("takes input_values, so it is not a text transformer"):
        load_encoder(tmp_path)


@pytest.mark.parametrize(
    "make, expected",
    [
        (bert, False),
        (gpt2, True),
        (lambda: bare(t5()), False),
        (lambda: bare(bart()), False),
        (lambda: bert(is_decoder=True), True),
    ],
    ids=["bert", "gpt2", "t5", "bart", "a decoder with bert's parts"],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_causal_models_first_token_has_seen_no_other(make: Any, expected: bool, dtype: torch.dtype) -> None:
    model = make()
    if dtype == torch.bfloat16:
        for name, weight in model.named_parameters():  # as after training: tokens tell each other more than rounding
            if weight.dim() == 2 and "embed" not in name and "wpe" not in name and "wte" not in name:
                weight.data *= 10
    assert causal(model.to(dtype), IDS) == expected


def test_a_twin_has_the_shape_and_not_the_weights() -> None:
    model = bert()
    one, same, other = (twin(model, seed=seed) for seed in (1, 1, 2))
    first, again, third = (next(each.parameters()) for each in (one, same, other))
    assert torch.equal(first, again)
    assert not torch.equal(first, third)
    assert not torch.equal(first, next(model.parameters()))
    assert one.config == model.config
    assert one.config is not model.config
