"""Spectra and decisions from few components: what is drawn are the tables' means."""

import numpy as np
import pandas as pd
import pytest

from isoscope.platform.figures.pictures import pictures
from isoscope.platform.figures.style import to_svg
from isoscope.studies.fusion.decision_rank import RANKS, SINGULAR_VALUES, SMALLEST

STEPS = (0, 1, 10, 100)


def snapshots(arms: tuple[str, ...], seeds: int) -> list[dict[str, object]]:
    return [
        {"arm": arm, "seed": seed, "snapshot": f"step-{step}", "step": step, "best": step == 10}
        for arm in arms
        for seed in range(seeds)
        for step in STEPS
    ]


def values() -> pd.DataFrame:
    rows = [
        {
            **who,
            "vectors": "first",
            "layer": layer,
            "component": component,
            "value": np.nan if layer == 0 else 0.5 ** (component - 1),
            "degenerate": layer == 0,
            "n": 40,
        }
        for who in snapshots(("additive", "conv2d"), 2)
        for layer in (0, 1, 2)
        for component in ((1,) if layer == 0 else range(1, 15))
    ]
    return pd.DataFrame(rows).astype({"step": "Int64"})


def ranks() -> pd.DataFrame:
    rows = [
        {**who, "components": components, "k": k, "accuracy": 0.5 + 0.1 * seed, "macro_f1": 0.3, "n": 40}
        for who in snapshots(("additive", "conv2d"), 2)
        for seed in [who["seed"]]
        for components, k in (("dropped", 0), ("kept", 1), ("dropped", 1), ("kept", 5), ("dropped", 5), ("alone", 2))
    ]
    return pd.DataFrame(rows).astype({"step": "Int64"})


def test_a_spectrum_has_a_line_for_every_layer_that_has_one() -> None:
    found = SINGULAR_VALUES.form.drawn(values())  # type: ignore[attr-defined]
    assert set(found["layer"]) == {1, 2}
    assert found["moment"].unique().tolist() == ["first snapshot (update 0)", "chosen epoch (update 10)"]
    np.testing.assert_allclose(found["value"], 0.5 ** (found["component"] - 1.0))
    assert found["value"].min() >= SMALLEST > 0.5**13
    assert "mathdefault" not in to_svg(SINGULAR_VALUES.form(values())), "nothing reads formulas"


def test_an_arm_without_spectra_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    (one,) = pictures([SINGULAR_VALUES], {"singular_values": values().assign(degenerate=True)})
    one.figure()
    assert "nothing to draw" in capsys.readouterr().err


def test_decisions_stand_beside_the_whole_model() -> None:
    found = RANKS.form.drawn(ranks())  # type: ignore[attr-defined]
    assert set(found["k"]) == {1, 2, 5}
    assert found["whole"].to_numpy() == pytest.approx(0.55)
    assert found["accuracy"].to_numpy() == pytest.approx(0.55)
    assert found["high"].to_numpy() == pytest.approx(0.55 + 0.1 / 2**0.5)
    assert len(RANKS.form(ranks()).axes) == 6
