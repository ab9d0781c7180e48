"""Magnitudes of a trained binding are changed, and nothing else (docs/results/remedies_interventions.py)."""

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

from fusions import FFT, batch, make
from isoscope.models import FusionBertForSequenceClassification

SCRIPT = Path(__file__).parents[1] / "docs/results/remedies_interventions.py"


@pytest.fixture(scope="module")
def script() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(SCRIPT.parent))
        yield loaded()


def loaded() -> ModuleType:
    spec = importlib.util.spec_from_file_location("interventions", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("width", [16, 17])
@pytest.mark.parametrize("kind", ["flat", "Rayleigh"])
def test_phases_and_power_stay(script: ModuleType, kind: str, width: int) -> None:
    table = torch.randn(40, width, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    changed = script.with_magnitudes(table, kind, script.rayleigh(0))
    torch.testing.assert_close(changed.norm(dim=-1), table.norm(dim=-1))
    before, after = torch.fft.rfft(table), torch.fft.rfft(changed)
    torch.testing.assert_close(after.sgn(), before.sgn())
    spread = after.abs().std(-1) / after.abs().mean(-1)
    assert (spread < 1e-9).all() if kind == "flat" else (spread > 0.2).all()
    assert not torch.allclose(after.abs(), before.abs())


def test_flat_positions_are_what_unitary_binding_has(script: ModuleType) -> None:
    def logits(fusion: dict[str, object], name: str) -> torch.Tensor:
        model = make(FusionBertForSequenceClassification, fusion)
        script.intervene(model, name, seed=0)
        with torch.no_grad():
            return model(**batch()).logits

    unitary = FFT | {"magnitudes": "unit"}
    torch.testing.assert_close(logits(unitary, "position flat"), logits(unitary, "untouched"))
    for fusion in (unitary, FFT):
        for name in ("position Rayleigh", "both flat"):
            assert not torch.allclose(logits(fusion, name), logits(fusion, "untouched"), atol=1e-3)
