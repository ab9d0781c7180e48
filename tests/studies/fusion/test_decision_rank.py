"""Spectra and decisions from few components: a line per layer or k, fixed scales, degenerate cells marked."""

import numpy as np
import pandas as pd
import pytest

from isoscope.platform.figures.style import to_svg
from isoscope.studies.fusion.decision_rank import rank_curves, singular_spectra

STEPS = (0, 1, 10, 100)


def snapshots(arms: tuple[str, ...], seeds: int) -> list[dict[str, object]]:
    return [
        {"arm": arm, "seed": seed, "snapshot": f"step-{step}", "step": step, "best": step == 10}
        for arm in arms
        for seed in range(seeds)
        for step in STEPS
    ]


def values(arms: tuple[str, ...] = ("additive", "conv2d"), *, single: bool = False) -> pd.DataFrame:
    rows = [
        {
            **who,
            "vectors": "first",
            "layer": layer,
            "component": component,
            "value": np.nan if layer == 0 else 0.5 ** (component - 1),
            "degenerate": layer == 0 or single,
            "n": 40,
        }
        for who in snapshots(arms, 2)
        for layer in (0, 1, 2)
        for component in ((1,) if layer == 0 else range(1, 9))
    ]
    return pd.DataFrame(rows).astype({"step": "Int64"})


def ranks(seeds: int = 2) -> pd.DataFrame:
    rows = [
        {**who, "components": components, "k": k, "accuracy": 0.5 + 0.1 * seed, "macro_f1": 0.3, "n": 40}
        for who in snapshots(("additive", "conv2d"), seeds)
        for seed in [who["seed"]]
        for components, k in (("dropped", 0), ("kept", 1), ("dropped", 1), ("kept", 5), ("dropped", 5), ("alone", 2))
    ]
    return pd.DataFrame(rows).astype({"step": "Int64"})


def test_a_spectrum_has_a_line_for_every_layer_that_has_one() -> None:
    figure = singular_spectra(values())
    assert len(figure.axes) == 4  # two moments, two arms
    for axes in figure.axes:
        lines = [line for line in axes.get_lines() if len(line.get_xdata())]
        assert len(lines) == 2
        assert lines[0].get_ydata() == pytest.approx(0.5 ** np.arange(8.0))
        assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
        assert axes.get_ylim() == (1e-3, 1.4)
    assert "mathdefault" not in to_svg(figure)  # nothing reads formulas
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["layer 1", "layer 2"]


def test_an_arm_without_spectra_is_hatched() -> None:
    assert all(
        any(one.get_gid() == "hatched" for one in axes.patches) for axes in singular_spectra(values(single=True)).axes
    )


def test_decisions_run_from_0_to_1_beside_the_whole_model() -> None:
    figure = rank_curves(ranks())
    assert len(figure.axes) == 6
    for axes in figure.axes:
        assert axes.get_ylim() == (-0.02, 1.02)
        whole = [line for line in axes.get_lines() if line.get_gid() == "whole"]
        assert len(whole) == 1
        assert whole[0].get_ydata() == pytest.approx([0.55] * 4)
    kept = [line for line in figure.axes[0].get_lines() if line.get_gid() != "whole" and len(line.get_xdata())]
    assert len(kept) == 2
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["k = 1", "k = 2", "k = 5", "whole model"]


def test_equal_tables_give_equal_drawings() -> None:
    assert to_svg(rank_curves(ranks())) == to_svg(rank_curves(ranks()))
    assert to_svg(singular_spectra(values())) == to_svg(singular_spectra(values()))
