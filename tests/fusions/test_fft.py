"""Every remedy of circular convolution against its formula and its laws."""

from typing import Any

import pytest
import torch
from scipy.linalg import circulant
from torch import Tensor

from fusions import FFT, batch, config
from isoscope.fusions.sources import Bounded
from isoscope.models import FusionBertForSequenceClassification, FusionRobertaForSequenceClassification
from isoscope.models.embeddings import FractionalPositions, build_fusion, rope_angles

BARE = FFT | {"token_type": "ignore"}
L = 5


@pytest.fixture(params=[16, 17], ids=["even", "odd"])
def width(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def drawn(*shape: int, seed: int = 0, std: float = 1.0) -> Tensor:
    return std * torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def make(width: int, init_std: float = 0.02, **options: Any) -> Any:
    return build_fusion(BARE | options, hidden_size=width, causal=False, init_std=init_std).double()


def spectrum(vector: Tensor) -> Tensor:
    return torch.fft.fft(vector)


def magnitudes(vector: Tensor) -> Tensor:
    return spectrum(vector).abs()


def test_unit_keeps_inner_products_and_is_undone_by_the_involution(width: int) -> None:
    words, position = drawn(2, L, width), drawn(1, 1, width, seed=1).expand(1, L, width)
    bound, plain = (make(width, magnitudes=kind)(words, position, position) for kind in ("unit", "product"))
    torch.testing.assert_close(bound @ bound.mT, words @ words.mT, rtol=0, atol=1e-12)
    assert not torch.allclose(plain @ plain.mT, words @ words.mT, atol=0.1)
    unitary = make(width, magnitudes="unit")(torch.eye(1, width, dtype=torch.float64)[None], position[:, :1], words)
    involution = unitary.flip(-1).roll(1, -1)  # a*_j = a_{−j}
    undone = make(width)(bound, involution, involution)
    torch.testing.assert_close(undone, words, rtol=0, atol=1e-12)
    wrong = make(width)(plain, position.flip(-1).roll(1, -1), involution)
    assert not torch.allclose(wrong, words, atol=0.1)


def test_unit_is_the_circulant_product_with_the_projected_position(width: int) -> None:
    word, position = drawn(1, 1, width), drawn(1, 1, width, seed=1)
    projected = torch.fft.ifft(spectrum(position) / magnitudes(position)).real
    expected = torch.from_numpy(circulant(projected[0, 0].numpy())) @ word[0, 0]
    torch.testing.assert_close(make(width, magnitudes="unit")(word, position, position)[0, 0], expected)


@pytest.mark.parametrize("exponent", [0.0, 0.3, 1.0])
def test_power_changes_the_position_magnitudes_only(exponent: float, width: int) -> None:
    word, position = drawn(1, L, width), drawn(1, L, width, seed=1)
    bound = make(width, magnitudes="power", exponent=exponent)(word, position, position)
    torch.testing.assert_close(magnitudes(bound), magnitudes(word) * magnitudes(position) ** exponent)
    plain = make(width)(word, position, position)
    torch.testing.assert_close(spectrum(bound).sgn(), spectrum(plain).sgn())
    for value, same in ((1.0, "product"), (0.0, "unit")):
        other = make(width, magnitudes=same)(word, position, position)
        assert torch.allclose(bound, other) == (exponent == value)


def test_phase_has_magnitude_one_and_the_phases_of_the_product(width: int) -> None:
    word, position = drawn(1, L, width), drawn(1, L, width, seed=1)
    bound = make(width, magnitudes="phase")(word, position, position)
    torch.testing.assert_close(magnitudes(bound), torch.ones(1, L, width, dtype=torch.float64))
    torch.testing.assert_close(spectrum(bound), spectrum(make(width)(word, position, position)).sgn())


def test_gradients_are_those_of_finite_differences(width: int) -> None:
    tables = [drawn(1, 2, width, seed=seed).requires_grad_() for seed in range(3)]
    for options in (
        {"magnitudes": "unit"},
        {"magnitudes": "phase"},
        {"magnitudes": "power", "exponent": 0.4, "start": "delta"},
        {"output": "complex", "magnitudes": "phase"},
        {"scale": "variance", "start": "delta", "token_type": "add"},
    ):
        module = make(width, **options)
        assert torch.autograd.gradcheck(module, tables)
    module = make(width, magnitudes="power", exponent=0.4)

    def of_exponent(value: Tensor) -> Any:
        return torch.func.functional_call(module, {"exponent": value}, tuple(tables))

    assert torch.autograd.gradcheck(of_exponent, module.exponent.detach().clone().requires_grad_())


@pytest.mark.parametrize("kind, exponent", [("unit", None), ("phase", None), ("power", 0.5)])
def test_a_zero_vector_stays_finite_forwards_and_backwards(kind: str, exponent: float | None, width: int) -> None:
    word, position = (drawn(1, 2, width, seed=seed).float() for seed in (0, 1))
    word[0, 0] = position[0, 1] = 0  # rows of padding
    word.requires_grad_()
    position.requires_grad_()
    module = make(width, magnitudes=kind, exponent=exponent).float()
    module(word, position, position).square().sum().backward()
    for one in (word, position, *module.parameters()):
        assert one.grad.isfinite().all()


@pytest.mark.parametrize(
    "value, gradient, passes", [(0.5, 1, True), (1.0, -1, False), (1.0, 1, True), (1.2, -1, False)]
)
@pytest.mark.parametrize("mirrored", [False, True])
def test_a_bounded_parameter_can_always_return(value: float, gradient: float, passes: bool, mirrored: bool) -> None:
    if mirrored:
        value, gradient = 1 - value, -gradient
    parameter = torch.tensor(value, requires_grad=True)
    clamped = Bounded.apply(parameter)
    assert clamped == min(max(value, 0), 1)
    (gradient * clamped).backward()
    assert (parameter.grad == gradient) == passes


def test_a_delta_start_adds_nothing_and_its_table_binds(width: int) -> None:
    word, nothing = drawn(1, L, width), torch.zeros(1, L, width, dtype=torch.float64)
    for kind in ("product", "unit"):
        torch.testing.assert_close(make(width, start="delta", magnitudes=kind)(word, nothing, nothing), word)
        assert not torch.allclose(make(width, magnitudes=kind)(word, nothing, nothing), word)
    small = drawn(1, L, width, seed=1, std=0.1)
    bound = make(width)(word, small, small)
    torch.testing.assert_close(make(width, start="delta")(word, small, small), word + bound)


def test_fractional_positions_are_powers_and_bind_relative_positions(width: int) -> None:
    positions = FractionalPositions(torch.nn.Embedding(200, width), learned=False).double()
    rows = positions.weight
    assert rows.shape == (200, width)
    torch.testing.assert_close(rows.norm(dim=-1), torch.ones(200, dtype=torch.float64))
    torch.testing.assert_close(magnitudes(rows), torch.ones(200, width, dtype=torch.float64))
    bind = make(width)
    torch.testing.assert_close(bind(rows[None, 3:4], rows[None, 4:5], rows[:1]), rows[None, 7:8])  # p_3 ⊛ p_4 = p_7
    word, other = drawn(1, 1, width), drawn(1, 1, width, seed=1)
    bound, against = (bind(one.expand(1, 200, width), rows[None], rows)[0] for one in (word, other))
    products = bound @ against.T
    torch.testing.assert_close(products[7, 3], products[104, 100], rtol=0, atol=1e-12)
    torch.testing.assert_close(products[3, 7], products[100, 104], rtol=0, atol=1e-12)
    assert abs(products[7, 3] - products[7, 4]) > 1e-3
    table = drawn(200, width, seed=2)
    scattered = (
        bind(word.expand(1, 200, width), table[None], table)[0]
        @ bind(other.expand(1, 200, width), table[None], table)[0].T
    )
    assert abs(scattered[7, 3] - scattered[104, 100]) > 1e-3


def test_angles_are_those_of_rope(width: int) -> None:
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    even = width - width % 2
    library = LlamaRotaryEmbedding(LlamaConfig(hidden_size=even, num_attention_heads=1)).inv_freq
    torch.testing.assert_close(rope_angles(even), library[: (even - 1) // 2])


@pytest.mark.parametrize("kind", [FusionBertForSequenceClassification, FusionRobertaForSequenceClassification])
@pytest.mark.parametrize("positions", ["fractional", "learned"])
def test_an_encoder_takes_positions_from_the_angles(kind: Any, positions: str) -> None:
    torch.manual_seed(0)
    model = kind(config(FFT | {"positions": positions}, kind.config_class)).eval()
    torch.manual_seed(0)
    with_table = kind(config(FFT, kind.config_class))
    own, table = model.base_model.embeddings.position_embeddings, with_table.base_model.embeddings.position_embeddings
    assert (own.num_embeddings, own.padding_idx) == (table.num_embeddings, table.padding_idx)
    learned = {name for name, _ in model.named_parameters() if "position_embeddings" in name}
    assert len(learned) == (positions == "learned")
    others = {name: value for name, value in model.state_dict().items() if "position_embeddings" not in name}
    for name, value in with_table.state_dict().items():
        if "position_embeddings" not in name:
            assert torch.equal(others.pop(name), value), name
    assert not others
    inputs = batch((9, 4))
    model(**inputs).logits.sum().backward()
    if positions == "learned":
        assert own.angles.grad.abs().min() > 0


def test_complex_output_reads_both_parts_of_the_spectrum(width: int) -> None:
    word, position = drawn(1, L, width), drawn(1, L, width, seed=1)
    module = make(width, output="complex", magnitudes="phase")
    product = (torch.fft.rfft(word) * torch.fft.rfft(position)).sgn()
    parts = torch.cat([product.real, product.imag], -1)
    torch.testing.assert_close(module(word, position, position), parts @ module.projection.T)
    inverse = torch.linalg.pinv(parts[0])  # a matrix that undoes the transform gives the real form
    with torch.no_grad():
        real = make(width, magnitudes="phase")(word, position, position)
        module.projection.copy_((inverse @ real[0]).T)
    torch.testing.assert_close(module(word, position, position), real)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"start": "delta"},
        {"magnitudes": "phase"},
        {"magnitudes": "power", "exponent": 0.5},
        {"magnitudes": "power", "exponent": 1.0},
        {"sources": ["word", "position", "token_type"], "magnitudes": "unit"},
    ],
    ids=str,
)
@pytest.mark.parametrize("std", [0.02, 0.5])
def test_scaling_gives_the_variance_of_the_word_table(options: dict[str, Any], std: float) -> None:
    size = 512
    tables = [drawn(1, 300, size, seed=seed, std=std) for seed in range(3)]
    if "sources" not in options:  # without a token type, LayerNorm would undo the scale: it is refused
        options, tables[2] = options | {"token_type": "add"}, torch.zeros_like(tables[2])
    scaled = make(size, init_std=std, scale="variance", **options)(*tables).detach()
    assert float(scaled.var()) == pytest.approx(std**2, rel=0.05)
    bare = make(size, init_std=std, **options)(*tables).detach()
    if not (options.get("start") == "delta" and std == 0.02):  # a small p: the scale is close to 1
        assert float(bare.var()) != pytest.approx(std**2, rel=0.05)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    "options",
    [{"magnitudes": "unit"}, {"magnitudes": "power", "exponent": 0.5}, {"magnitudes": "phase", "output": "complex"}],
    ids=str,
)
def test_half_precision_is_transformed_in_single(dtype: torch.dtype, options: dict[str, Any], width: int) -> None:
    word, position = (drawn(1, L, width, seed=seed).to(dtype) for seed in (0, 1))
    module = make(width, **options).to(dtype)
    bound = module(word, position, position)
    assert bound.dtype == dtype
    exact = module.double()(word.double(), position.double(), position.double())
    torch.testing.assert_close(bound.double(), exact, rtol=0, atol=60 * torch.finfo(dtype).eps)


def test_a_residual_start_of_a_remedy_is_the_sum(width: int) -> None:
    tables = [drawn(1, L, width, seed=seed) for seed in range(3)]
    module = make(width, start="residual", magnitudes="unit", token_type="add")
    assert torch.equal(module(*tables), tables[0] + tables[2] + tables[1])
    with torch.no_grad():
        module.gate.fill_(0.5)
    bound = make(width, magnitudes="unit")(*tables)
    torch.testing.assert_close(module(*tables), sum(tables) + 0.5 * bound)
