"""Damage of removing groups: closed form for a loss that is a sum over parameters; the model is as before."""

import pytest
import torch
from transformers import BertConfig, BertModel

from isoscope.models.components import blocks
from isoscope.training.ablation import START, ZERO, damages


@pytest.fixture
def model() -> BertModel:
    torch.manual_seed(0)
    sizes = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 12}
    model = BertModel(BertConfig(vocab_size=20, max_position_embeddings=6, **sizes)).double()
    for one in model.parameters():
        torch.nn.init.normal_(one)
    return model


def test_the_damage_of_a_sum_of_squares(model: BertModel) -> None:
    """L = Σ_b c_b |θ_b|²: without block b the loss changes by −c_b |θ_b|², at its start by c_b (|θ₀_b|² − |θ_b|²)."""
    weight = {name: float(number + 1) for number, name in enumerate(blocks(model))}
    start = {name: torch.randn_like(one) for name, one in model.named_parameters()}
    before = {name: one.clone() for name, one in model.named_parameters()}

    def squares(of: dict[str, torch.Tensor]) -> float:
        return sum(float((one.detach() ** 2).sum()) for one in of.values())

    def loss() -> float:
        return sum(weight[name] * squares(own) for name, own in blocks(model).items())

    own = {name: (squares(one), squares({part: start[part] for part in one})) for name, one in blocks(model).items()}
    whole = loss()
    found = {(one.group, one.kind): one for one in damages(model, start, loss)}
    assert all(torch.equal(one, before[name]) for name, one in model.named_parameters())
    for name, (trained, begun) in own.items():
        assert found[name, START].damage == pytest.approx(weight[name] * (begun - trained))
        assert found[name, START].loss == pytest.approx(whole + weight[name] * (begun - trained))
        if not name.endswith("LayerNorm"):
            assert found[name, ZERO].damage == pytest.approx(-weight[name] * trained)
    norms = {name for name in own if name.endswith("LayerNorm")}
    assert norms == {"enc.LayerNorm", "enc.0.LayerNorm", "enc.1.LayerNorm"}
    assert found.keys() == {(name, START) for name in own} | {(name, ZERO) for name in own.keys() - norms}
    assert sum(one.parameters for one in found.values() if one.kind == START) == model.num_parameters()


def test_what_did_not_move_does_no_damage_at_its_start(model: BertModel) -> None:
    ids = torch.arange(6)[None]

    def loss() -> float:
        return float(model(input_ids=ids).last_hidden_state.square().mean())

    start = {name: one.detach().clone() for name, one in model.named_parameters()}
    found = list(damages(model.eval(), start, loss))
    assert {one.damage for one in found if one.kind == START} == {0.0}
    assert all(abs(one.damage) > 1e-9 for one in found if one.kind == ZERO), "what the loss reads, it misses"
