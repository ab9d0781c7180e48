"""A warning names emulated arithmetic before training starts."""

import pytest
import torch

from isoscope.models.precision import warn_of_emulation


@pytest.mark.parametrize("kernels", [True, False])
@pytest.mark.parametrize("precision, device", [("bf16", "cpu"), ("fp32", "cpu"), ("bf16", "cuda")])
def test_only_bf16_on_a_cpu_without_kernels_for_it_is_warned_of(
    precision: str, device: str, kernels: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: kernels)
    warn_of_emulation(precision, device=device, key="training.precision")
    warned = "warning: training.precision: bf16 is emulated" in capsys.readouterr().err
    assert warned == (precision == "bf16" and device == "cpu" and not kernels)


def test_torch_still_says_whether_it_has_the_kernels() -> None:
    assert torch.ops.mkldnn._is_mkldnn_bf16_supported() in (True, False)
