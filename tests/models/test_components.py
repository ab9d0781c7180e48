"""Groups of parameters: each parameter once, heads by rows and columns, names of all families."""

from collections import Counter
from typing import Any

import pytest
import torch
from torch import nn
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertLMHeadModel,
    BloomConfig,
    BloomModel,
    EncoderDecoderConfig,
    EncoderDecoderModel,
    RobertaForMaskedLM,
    RobertaPreLayerNormConfig,
    RobertaPreLayerNormForMaskedLM,
)

from fusions import FUSIONS, SCRATCH
from isoscope.models import build
from isoscope.models.components import Group, members
from isoscope.training.packed import Packed
from refused import refused

SIZES: dict[str, Any] = {
    "vocab_size": 40,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 24,
    "max_position_embeddings": 20,
}


def classifier(family: str = "bert", fusion: str = "additive") -> nn.Module:
    return build.from_scratch(fusion=FUSIONS[fusion], labels=["a", "b"], pad_id=0, **SCRATCH | {"family": family})


def translator() -> nn.Module:
    config = EncoderDecoderConfig.from_encoder_decoder_configs(BertConfig(**SIZES), BertConfig(**SIZES))
    return EncoderDecoderModel(config)


def of_each(model: nn.Module) -> dict[str, set[tuple[str, int | None, str]]]:
    """The blocks of each parameter, by its name."""
    return {one.name: {group[:3] for group in one.groups} for one in members(model)}


MODELS = {
    "bert": classifier,
    "roberta": lambda: classifier("roberta"),
    "conv2d": lambda: classifier(fusion="conv2d-5x5-bias-gate"),
    "masked": lambda: BertForMaskedLM(BertConfig(**SIZES)),
    "causal": lambda: BertLMHeadModel(BertConfig(**SIZES, is_decoder=True)),
    "pre-norm": lambda: RobertaPreLayerNormForMaskedLM(RobertaPreLayerNormConfig(**SIZES)),
    "encoder-decoder": translator,
}


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS.keys())
def test_groups_hold_every_parameter_once(make: Any) -> None:
    """Random products: sums by group, of groups and of parameters are the same to 1e-12 in float64."""
    model = make().double()
    packed = Packed(members(model))
    draw = torch.Generator().manual_seed(0)
    gradients = [torch.randn(one.parameter.shape, generator=draw, dtype=torch.float64) for one in packed.members]
    change = [torch.randn(one.parameter.shape, generator=draw, dtype=torch.float64) for one in packed.members]
    found = packed.paired(packed.pack(gradients), packed.pack(change))
    by_parameter = {one.name: g * d for one, g, d in zip(packed.members, gradients, change, strict=True)}
    assert by_parameter.keys() == dict(model.named_parameters()).keys()
    scale = sum(float(one.abs().sum()) for one in by_parameter.values())
    assert found.sum() == pytest.approx(sum(float(one.sum()) for one in by_parameter.values()), abs=1e-12 * scale)
    assert packed.counts.sum() == sum(one.numel() for one in model.parameters())
    expected: Counter[Group] = Counter()
    for one in packed.members:
        rows = one.parameter.shape[one.columns and 1] // len(one.groups) if one.parameter.ndim else 1
        for number, group in enumerate(one.groups):
            of_head = slice(rows * number, rows * (number + 1))
            values = by_parameter[one.name]
            whole = len(one.groups) == 1
            expected[group] += float(
                (values if whole else values[:, of_head] if one.columns else values[of_head]).sum()
            )
    for group, value in zip(packed.groups, found, strict=True):
        assert value == pytest.approx(expected[group], abs=1e-12 * scale), group


def test_packing_is_exact_and_sums_do_not_depend_on_blocks() -> None:
    model = classifier()
    packed = Packed(members(model))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    flat = packed.read()
    packed.write(flat + 1)
    packed.write(flat)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    gradient = torch.randn(packed.size, generator=torch.Generator().manual_seed(1))
    whole = packed.paired(gradient, flat)
    small = Packed(members(model), block=100)
    torch.testing.assert_close(
        torch.from_numpy(small.paired(gradient, flat)), torch.from_numpy(whole), rtol=1e-12, atol=1e-12
    )
    start = torch.zeros(packed.size)
    counted, in_blocks = packed.counted(gradient, start, flat), small.counted(gradient, start, flat)
    for name in ("helping", "hurting", "largest"):
        assert (counted[name] == in_blocks[name]).all(), name
    products = gradient.double() * flat.double()
    assert counted["helping"].sum() == int((products < 0).sum())
    assert counted["hurting"].sum() == int((products > 0).sum())
    assert counted["largest"].max() == float(products.max())


@pytest.mark.parametrize("how", ["sum", "max"])
def test_segments_by_torch_and_by_numpy_agree(how: Any) -> None:
    """A GPU uses torch's segments."""
    packed = Packed(members(classifier()))
    values = torch.randn(packed.size, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    (cut,) = packed._cuts
    found = torch.segment_reduce(values, how, lengths=cut.lengths)
    torch.testing.assert_close(packed._reduced(values, cut, how), found, rtol=1e-12, atol=1e-12)


def test_heads_are_rows_of_query_key_value_and_columns_of_out() -> None:
    model = classifier()
    found = {one.name: one for one in members(model)}
    layer = "bert.encoder.layer.1.attention."
    for name in ("query", "key", "value"):
        for part in ("weight", "bias"):
            one = found[f"{layer}self.{name}.{part}"]
            assert not one.columns
            assert one.groups == tuple(Group("enc", 1, name, head, part) for head in range(4))
    out = found[f"{layer}output.dense.weight"]
    assert out.columns
    assert out.groups == tuple(Group("enc", 1, "out", head, "weight") for head in range(4))
    assert found[f"{layer}output.dense.bias"].groups == (Group("enc", 1, "out", None, "bias"),)
    flat = out.arranged(out.parameter.detach())
    assert torch.equal(flat[: 4 * 16], out.parameter[:, :4].detach().t().reshape(-1))
    assert torch.equal(out.view(flat), out.parameter)


EMBEDDINGS, LAYER = "bert.embeddings.", "bert.encoder.layer.0."
COMPONENTS = {
    f"{EMBEDDINGS}word_embeddings.weight": (None, "emb"),
    f"{EMBEDDINGS}position_embeddings.weight": (None, "pos"),
    f"{EMBEDDINGS}token_type_embeddings.weight": (None, "other"),
    f"{EMBEDDINGS}fusion.weight": (None, "fusion"),
    f"{EMBEDDINGS}fusion.bias": (None, "fusion"),
    f"{EMBEDDINGS}LayerNorm.weight": (None, "LayerNorm"),
    f"{LAYER}intermediate.dense.weight": (0, "W1"),
    f"{LAYER}output.dense.bias": (0, "W2"),
    f"{LAYER}output.LayerNorm.bias": (0, "LayerNorm"),
    f"{LAYER}attention.output.LayerNorm.weight": (0, "LayerNorm"),
    "bert.pooler.dense.weight": (None, "other"),
    "classifier.bias": (None, "other"),
}


def test_every_name_of_a_classifier_has_its_component() -> None:
    found = of_each(classifier(fusion="conv2d-5x5-bias-gate"))
    for name, component in COMPONENTS.items():
        assert found[name] == {("enc", *component)}
    angles = of_each(classifier(fusion="fft-learned-positions"))
    assert angles[f"{EMBEDDINGS}position_embeddings.angles"] == {("enc", None, "pos")}, "positions are positions"


def test_a_tied_matrix_is_the_word_table() -> None:
    for model in (BertForMaskedLM(BertConfig(**SIZES)), RobertaForMaskedLM(RobertaForMaskedLM.config_class(**SIZES))):
        found = of_each(model)
        embeddings = [name for name, blocks in found.items() if ("enc", None, "emb") in blocks]
        assert len(embeddings) == 1
        assert embeddings[0].endswith("embeddings.word_embeddings.weight")
        assert not any(name.endswith("decoder.weight") for name in found)
        (bias,) = [name for name in found if name.endswith(("predictions.bias", "lm_head.bias"))]
        assert found[bias] == {("enc", None, "other")}
    assert found["lm_head.layer_norm.weight"] == {("enc", None, "LayerNorm")}


def test_a_causal_model_is_a_decoder_and_an_encoder_decoder_has_three_stacks() -> None:
    assert {group.stack for one in members(MODELS["causal"]()) for group in one.groups} == {"dec"}
    groups = {one.name: one.groups for one in members(translator())}
    for name, expected in (
        ("encoder.encoder.layer.0.attention.self.query.weight", ("enc", 0, "query")),
        ("decoder.bert.encoder.layer.1.attention.self.key.bias", ("dec", 1, "key")),
        ("decoder.bert.encoder.layer.1.crossattention.self.value.weight", ("cross", 1, "value")),
        ("decoder.bert.encoder.layer.1.crossattention.output.dense.bias", ("cross", 1, "out")),
        ("decoder.bert.encoder.layer.1.output.dense.weight", ("dec", 1, "W2")),
    ):
        assert {group[:3] for group in groups[name]} == {expected}
    every = [group for own in groups.values() for group in own]
    assert {group.stack for group in every} == {"enc", "dec", "cross"}
    assert {group.head for group in every if (group.stack, group.component) == ("cross", "query")} == {0, 1, 2, 3}


def test_unknown_names_and_half_precision_are_refused() -> None:
    with refused("BloomModel: no parameter is named like a query matrix in a layer"):
        members(BloomModel(BloomConfig(n_layer=1, n_head=2, hidden_size=8, vocab_size=20)))
    with refused(r"is torch\.bfloat16; allocation needs fp32 weights"):
        Packed(members(classifier().bfloat16()))
