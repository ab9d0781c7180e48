"""torch.compile compiles the models as one graph, in training and inference, with the same bits."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from fusions import FUSIONS, batch, make
from isoscope.models import FusionBertForSequenceClassification

# Each way of a kernel's sources (a sentence's own, shared by all), a mask, and the rest of the arithmetic.
EACH = ["additive", "conv2d-5x5-bias-gate", "conv2d-three-l2", "conv2d-residual", "fft-residual"]
# PyTorch 2.13 itself does what it warns of, where Dynamo meets an autograd function.
pytestmark = pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")


@pytest.fixture(autouse=True)
def _no_compiled_code_of_other_tests() -> Iterator[None]:
    yield
    torch._dynamo.reset()


def embeddings(name: str) -> nn.Module:
    model = make(FusionBertForSequenceClassification, FUSIONS[name])
    return model.bert.embeddings


@pytest.mark.parametrize("frozen", [False, True], ids=["no_grad", "frozen"])
@pytest.mark.parametrize("name", EACH)
def test_inference_is_one_graph(name: str, frozen: bool) -> None:
    block, inputs = embeddings(name).requires_grad_(not frozen), batch()
    compiled = torch.compile(block, fullgraph=True, backend="eager")
    with torch.set_grad_enabled(frozen):  # without no_grad, but with nothing to learn, is inference too
        assert torch.equal(compiled(**inputs), block(**inputs))


@pytest.mark.parametrize("name", EACH)
def test_training_is_one_graph(name: str) -> None:
    block, inputs = embeddings(name), batch()
    gradients: list[dict[str, Tensor]] = []
    for form in (torch.compile(block, fullgraph=True, backend="eager"), block):
        y = form(**inputs)
        (y * torch.arange(y.numel()).view(y.shape).cos()).sum().backward()
        gradients.append({part: value.grad for part, value in block.named_parameters() if value.grad is not None})
        block.zero_grad(set_to_none=True)
    assert gradients[0].keys() == gradients[1].keys()
    for part, value in gradients[0].items():
        assert torch.equal(value, gradients[1][part]), part
