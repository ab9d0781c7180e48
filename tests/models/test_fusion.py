"""Each fusion against its formula, another library and its laws."""

import math
from typing import Any

import pytest
import torch
from scipy.linalg import circulant
from torch import Tensor, nn
from torch.nn import functional as F

from fusions import CONV2D, FFT, FUSIONS
from isoscope.models.embeddings import build_fusion
from refused import refused

B, L, D = 3, 6, 9


@pytest.fixture
def tables() -> tuple[Tensor, Tensor, Tensor]:
    """Word, position and token-type vectors, in double precision."""
    draw = torch.Generator().manual_seed(0)
    shapes = (B, L, D), (1, L, D), (B, L, D)
    word, position, token_type = (torch.randn(shape, generator=draw, dtype=torch.float64) for shape in shapes)
    return word, position, token_type


MASK = torch.tensor([[1.0] * 6, [1.0] * 4 + [0.0] * 2, [1.0] * 1 + [0.0] * 5], dtype=torch.float64).unsqueeze(-1)


def make(fusion: dict[str, Any], *, causal: bool = False) -> nn.Module:
    return build_fusion(fusion, hidden_size=D, causal=causal, init_std=0.02).double()


def test_additive_sums_in_the_order_of_bert_and_scaled_multiplies_words_by_the_root_of_the_width(
    tables: tuple[Tensor, ...],
) -> None:
    word, position, token_type = (table.float() for table in tables)
    assert torch.equal(make({"kind": "additive"})(word, position, token_type), word + token_type + position)
    assert not torch.equal(word + position + token_type, word + token_type + position)  # the order can be seen
    word, position, token_type = tables
    fused = make({"kind": "scaled"})(word, position, token_type)
    assert torch.allclose(fused, 3 * word + token_type + position, rtol=0, atol=1e-15)  # D = 9
    assert torch.allclose(fused - make({"kind": "additive"})(word, position, token_type), 2 * word, rtol=0, atol=1e-14)
    bare = [make({"kind": "marian", "token_type": one})(word, position, token_type) for one in ("ignore", "add")]
    assert torch.allclose(bare[0], 3 * word + position / (2**0.5 * 0.02), rtol=0, atol=1e-12)
    assert torch.allclose(bare[1] - bare[0], token_type.expand_as(word), rtol=0, atol=1e-12)


def expected_conv2d(module: nn.Module, options: dict[str, Any], tables: tuple[Tensor, ...]) -> Tensor:
    """The formula of the class, with the library's convolution."""
    word, position, token_type = tables
    named = {"word": word, "token_type": token_type, "position": position.expand_as(word)}
    sources = [named[name] for name in ("word", "token_type", "position") if name in options["sources"]]
    seen = [s / s.norm(dim=-1, keepdim=True) for s in sources] if options["normalisation"] == "l2" else sources
    order = module.order if options.get("hidden_axes") == "permuted" else torch.arange(D)
    seen = [s[..., order] for s in seen]
    h, w = options["kernel_size"]
    y = F.conv2d(torch.stack(seen, 1) * MASK.unsqueeze(1), module.weight.unsqueeze(0), padding=(h // 2, w // 2))[:, 0]
    y = y[..., order.argsort()]
    y = y + module.bias if options["bias"] else y
    y = F.gelu(y) if options["activation"] == "gelu" else y
    if options["start"] == "residual":
        return word + token_type + position + module.gate * y
    if options["gate"] is not None:
        y = (1 - module.gate) * sum(sources) + module.gate * y
    return y + token_type if options["token_type"] == "add" else y


@pytest.mark.parametrize("name", [name for name in FUSIONS if name.startswith("conv2d")])
def test_conv2d_is_its_formula(name: str, tables: tuple[Tensor, ...]) -> None:
    module = make(FUSIONS[name])
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(module(*tables, MASK), expected_conv2d(module, FUSIONS[name], tables))


@pytest.mark.parametrize("sources", [["word", "position"], ["word", "position", "token_type"]], ids=len)
@pytest.mark.parametrize("causal", [False, True], ids=["centred", "causal"])
@pytest.mark.parametrize("kernel_size", [[1, 1], [3, 3], [5, 3]], ids=str)
def test_an_identity_kernel_adds(
    kernel_size: list[int], causal: bool, sources: list[str], tables: tuple[Tensor, ...]
) -> None:
    token_type = "ignore" if "token_type" in sources else "add"
    options = {"start": "identity", "activation": "none", "kernel_size": kernel_size, "bias": True}
    module = make(CONV2D | options | {"sources": sources, "token_type": token_type}, causal=causal)
    added = make({"kind": "additive"})(*tables)
    torch.testing.assert_close(module(*tables), added, rtol=0, atol=2e-15)  # the same terms in another order
    with torch.no_grad():
        module.weight[0, 0, 0] += 0.1
    assert not torch.allclose(module(*tables), added)


@pytest.mark.parametrize("name", ["conv2d-residual", "fft-residual"])
def test_a_residual_start_is_additive_to_the_last_bit_and_learns(name: str, tables: tuple[Tensor, ...]) -> None:
    tables = tuple(table.float() for table in tables)
    module = make(FUSIONS[name]).float()
    fused = module(*tables, MASK.float())
    assert torch.equal(fused, make({"kind": "additive"})(*tables))
    (fused * torch.linspace(-1, 1, D)).sum().backward()
    assert module.gate.grad.abs() > 0.01
    with torch.no_grad():
        module.gate.fill_(0.1)
    assert not torch.allclose(module(*tables, MASK.float()), make({"kind": "additive"})(*tables))


def test_a_closed_gate_is_the_sum_and_an_open_one_the_kernel(tables: tuple[Tensor, ...]) -> None:
    module, bare = make(CONV2D | {"gate": 0.5}), make(CONV2D)
    with torch.no_grad():
        bare.weight.copy_(module.weight)
        assert module.gate == 0.5
        for value, expected in ((0.0, tables[0] + tables[1]), (1.0, bare(*tables))):
            module.gate.fill_(value)
            torch.testing.assert_close(module(*tables), expected, rtol=0, atol=1e-15)


@pytest.mark.parametrize("blocks", [1, 4, D])
def test_linear_weighs_each_block_of_each_source(blocks: int, tables: tuple[Tensor, ...]) -> None:
    word, position, token_type = tables
    module = make(FUSIONS["linear"] | {"blocks": blocks, "activation": "none", "token_type": "add"})
    expected = torch.empty_like(word)
    for j in range(D):
        own, other = module.weight[:, j * blocks // D]
        expected[..., j] = own * word[..., j] + other * position[..., j] + token_type[..., j]
    torch.testing.assert_close(module(*tables), expected)
    assert len(set(module.weight.flatten().tolist())) == 2 * blocks  # each block has weights of its own


def test_a_permuted_kernel_sees_other_neighbours_and_a_frozen_one_stays(tables: tuple[Tensor, ...]) -> None:
    torch.manual_seed(0)
    natural, permuted = make(CONV2D), make(CONV2D | {"hidden_axes": "permuted", "kernel": "frozen"})
    permuted.weight.copy_(natural.weight.detach())
    order = permuted.order
    assert not torch.allclose(permuted(*tables), natural(*tables))
    torch.testing.assert_close(permuted(*tables)[..., order], natural(*(table[..., order] for table in tables)))
    assert list(permuted.parameters()) == []
    assert "weight" in permuted.state_dict()


@pytest.mark.parametrize("width", [8, 9])
def test_fft_is_the_circulant_product_and_the_direct_sum(width: int, tables: tuple[Tensor, ...]) -> None:
    word, position, token_type = (table[..., :width] for table in tables)
    fused = make(FFT | {"token_type": "ignore"})(word, position, token_type)
    for b in range(B):
        for at in range(L):
            a, p = word[b, at], position[0, at]
            direct = [sum(a[k] * p[(j - k) % width] for k in range(width)) for j in range(width)]
            torch.testing.assert_close(fused[b, at], torch.stack(direct))
            torch.testing.assert_close(fused[b, at], torch.from_numpy(circulant(a.numpy())) @ p)


def test_fft_commutes_and_the_delta_is_its_identity(tables: tuple[Tensor, ...]) -> None:
    word, position, token_type = tables
    module = make(FFT | {"token_type": "ignore"})
    position = position.expand_as(word)
    torch.testing.assert_close(module(word, position, token_type), module(position, word, token_type))
    delta = torch.zeros(1, L, D, dtype=torch.float64)
    delta[..., 0] = 1
    torch.testing.assert_close(module(word, delta, token_type), word)
    assert not torch.allclose(module(word, delta.roll(1, -1), token_type), word)  # it only turns the vector round
    torch.testing.assert_close(module(word, delta.roll(1, -1), token_type), word.roll(1, -1))


def test_fft_of_three_sources_binds_all_and_adds_none(tables: tuple[Tensor, ...]) -> None:
    word, position, token_type = tables
    pair = make(FFT | {"token_type": "ignore"})
    three = make(FFT | {"token_type": "ignore", "sources": ["word", "position", "token_type"]})
    torch.testing.assert_close(three(*tables), pair(pair(word, position, token_type), token_type, token_type))
    torch.testing.assert_close(make(FFT)(*tables), pair(*tables) + token_type)


@pytest.mark.parametrize("blind, normalisation", [(True, "l2"), (False, "none")])
def test_l2_makes_binding_blind_to_length(tables: tuple[Tensor, ...], blind: bool, normalisation: str) -> None:
    word, position, token_type = tables
    module = make(FFT | {"token_type": "ignore", "normalisation": normalisation})
    fused, scaled = module(*tables), module(3 * word, 0.2 * position, token_type)
    assert torch.allclose(fused, scaled) == blind


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["conv2d-three-l2", "fft-three-l2"])
def test_l2_leaves_a_zero_vector_zero(name: str, dtype: torch.dtype, tables: tuple[Tensor, ...]) -> None:
    module = build_fusion(FUSIONS[name], hidden_size=D, causal=False, init_std=0.02).to(dtype)
    word, position, token_type = (table.to(dtype, copy=True) for table in tables)
    word[0, 2] = position[0, 4] = 0  # as the vector of a padding token is
    assert module(word, position, token_type).isfinite().all()
    exact = module.double()(word.double(), position.double(), token_type.double())
    found = module.to(dtype)(word, position, token_type)
    torch.testing.assert_close(found.double(), exact, rtol=0, atol=40 * torch.finfo(dtype).eps)


@pytest.mark.parametrize("name", FUSIONS)
def test_the_number_of_parameters(name: str) -> None:
    options = FUSIONS[name]
    count = 0
    if options["kind"] == "conv2d":
        h, w = options["kernel_size"]
        kernel = len(options["sources"]) * h * w
        count = kernel * (options.get("kernel") != "frozen") + options["bias"] + (options["gate"] is not None)
    if options["kind"] == "linear":
        count = len(options["sources"]) * options["blocks"]
    count += options.get("exponent") is not None
    count += D * 2 * (D // 2 + 1) * (options.get("output") == "complex")
    count += options.get("start") == "residual"
    assert sum(parameter.numel() for parameter in make(options).parameters()) == count
    assert name != "conv2d" or count == 18  # as the source counts


def test_a_random_kernel_is_uniform_within_one_over_the_root_of_its_inputs() -> None:
    torch.manual_seed(0)
    options = CONV2D | {"kernel_size": [9, 101], "bias": True}
    module = make(options)
    bound = 1 / math.sqrt(2 * 9 * 101)
    weight = module.weight.detach().flatten() / bound
    assert weight.abs().max() <= 1
    assert module.bias.abs() <= bound
    assert float(weight.var()) == pytest.approx(1 / 3, abs=0.03)
    assert float(weight.mean()) == pytest.approx(0, abs=0.05)
    assert not torch.equal(module.weight, make(options).weight)


@pytest.mark.parametrize(
    "options, expected",
    [
        ({"kind": "sum"}, "model.fusion.kind: 'sum' is none of additive, scaled, marian, conv2d, linear, fft"),
        ({}, "model.fusion.kind: None is none of"),
        ({"kind": "additive", "bias": True}, "model.fusion: bias: unknown key"),
        ({"kind": "conv2d"}, "model.fusion: sources: missing"),
        (CONV2D | {"causal": True}, "model.fusion: causal: unknown key"),
        (CONV2D | {"kernel_size": [2, 3]}, r"model.fusion: .*kernel_size \[2, 3\] must be odd in both directions"),
        (CONV2D | {"kernel_size": [3]}, "model.fusion: kernel_size: expected 2 items"),
        (CONV2D | {"kernel_size": [-1, 3]}, "model.fusion: kernel_size.0: expected greater than or equal to 1, got -1"),
        (CONV2D | {"activation": "relu"}, "model.fusion: activation: expected 'gelu' or 'none', got 'relu'"),
        (CONV2D | {"start": "zero"}, "model.fusion: start: expected 'random', 'identity' or 'residual', got 'zero'"),
        (
            CONV2D | {"start": "identity", "token_type": "add"},
            "'identity' needs activation 'none' and normalisation 'none'",
        ),
        (CONV2D | {"start": "identity", "activation": "none"}, "equals adding, .*set token_type to 'add'"),
        (CONV2D | {"start": "residual", "token_type": "add", "gate": 0.5}, "start 'residual' has its own gate"),
        (CONV2D | {"start": "residual"}, "equals adding, .*set token_type to 'add'"),
        (CONV2D | {"hidden_axes": "permuted", "kernel_size": [3, 1]}, "changes nothing for a kernel of width 1"),
        (CONV2D | {"sources": ["word"]}, "model.fusion: sources: expected .*at least 2 items"),
        (CONV2D | {"sources": ["word", "token_type"]}, "must name word and position"),
        (CONV2D | {"sources": ["word", "position", "position"]}, "names a table twice"),
        (CONV2D | {"sources": ["word", "position", "segment"]}, "model.fusion: sources.2: expected"),
        (FUSIONS["linear"] | {"blocks": D + 1}, f"model.fusion.blocks: {D + 1}, but the encoder has {D} hidden"),
        (FFT | {"sources": ["word", "position", "token_type"]}, "'add' would count the token type twice"),
        (FFT | {"token_type": "sum"}, "model.fusion: token_type: expected 'add' or 'ignore', got 'sum'"),
        (FFT | {"normalisation": "l1"}, "model.fusion: normalisation: expected 'none' or 'l2', got 'l1'"),
        (FFT | {"start": "identity"}, "model.fusion: start: expected 'random', 'residual' or 'delta', got 'identity'"),
        (FFT | {"start": "residual", "token_type": "ignore"}, "equals adding, .*set token_type to 'add'"),
        (FFT | {"magnitudes": "power"}, "exponent None: set it for magnitudes 'power', and only there"),
        (FFT | {"exponent": 0.5}, "exponent 0.5: set it for magnitudes 'power', and only there"),
        (FFT | {"magnitudes": "phase", "normalisation": "l2"}, "'l2' changes nothing under magnitudes 'phase'"),
        (FFT | {"start": "delta", "normalisation": "l2"}, "start 'delta' needs normalisation 'none'"),
        (FFT | {"positions": "fractional", "magnitudes": "unit"}, "magnitudes 'unit' changes nothing"),
        (FFT | {"positions": "learned", "start": "delta"}, "start 'delta' needs positions 'table'"),
        (FFT | {"start": "delta", "output": "complex"}, "start 'delta' needs output 'real' and not magnitudes 'phase'"),
        (
            FFT | {"start": "delta", "magnitudes": "phase"},
            "start 'delta' needs output 'real' and not magnitudes 'phase'",
        ),
        (FFT | {"scale": "variance", "token_type": "ignore"}, "scale 'variance' changes nothing before LayerNorm"),
        (
            FUSIONS["conv2d-identity"] | {"kernel": "frozen", "hidden_axes": "permuted"},
            "hidden_axes 'permuted' changes nothing for a frozen delta kernel",
        ),
        (FFT | {"scale": "variance", "output": "complex"}, "scale 'variance' needs output 'real'"),
        (FFT | {"scale": "variance", "normalisation": "l2"}, "scale 'variance' needs normalisation 'none'"),
        (FFT | {"scale": "variance", "magnitudes": "unit"}, "scale 'variance' changes nothing"),
        (FFT | {"scale": "variance", "positions": "learned"}, "scale 'variance' changes nothing"),
        (
            FFT | {"scale": "variance", "magnitudes": "power", "exponent": 0.5, "start": "delta"},
            "scale 'variance' of magnitudes 'power' needs",
        ),
    ],
    ids=str,
)
def test_bad_options_are_refused_in_one_line(options: dict[str, Any], expected: str) -> None:
    with refused(expected):
        make(options)
