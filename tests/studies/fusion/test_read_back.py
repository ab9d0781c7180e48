"""What can be read back at each layer: which rows are shown, and that the lines are their means."""

import numpy as np
import pandas as pd
import pytest

from isoscope.figures.style import to_svg
from isoscope.studies.fusion.read_back import READ_BACK
from isoscope.studies.view import pictures


def table() -> pd.DataFrame:
    rows = []
    for number, (arm, seed) in enumerate((arm, seed) for arm in ("additive", "fft") for seed in (0, 1, 2)):
        for step, best in ((0, False), (9, True)):
            for layer, part in enumerate(("normed", "layer 1", "layer 2")):
                for read in ("word", "position"):
                    rate = 1 - 0.1 * layer - 0.01 * number - 0.3 * (step == 0) - 0.05 * (read == "position")
                    who = {"arm": arm, "seed": seed, "step": step, "best": best, "snapshot": f"step-{step}"}
                    rows.append({**who, "part": part, "read": read, "rate": rate, "control": 0.05})
            rows.append({**who, "part": "fused", "read": "word", "rate": 0.0, "control": 0.0})
    return pd.DataFrame(rows).astype({"step": "Int64"})


def test_lines_are_means_over_seeds_at_the_chosen_epoch() -> None:
    (picture,) = pictures([READ_BACK], {"decoding": table()})
    figure = picture.figure()
    for axes, lower in zip(figure.axes, (0.0, 0.05), strict=True):
        first, second, control = axes.lines
        np.testing.assert_array_equal(first.get_xdata(), [0, 1, 2])
        assert first.get_ydata() == pytest.approx(0.99 - lower - 0.1 * np.arange(3))
        assert second.get_ydata() == pytest.approx(0.96 - lower - 0.1 * np.arange(3))
        assert control.get_ydata() == pytest.approx(0.05)
        assert axes.get_ylim() == (-0.03, 1.03)
    assert "additive, word 0.79" in picture.spoken
    to_svg(figure)


def test_without_layers_there_is_layer_zero_alone() -> None:
    block = table()[lambda rows: ~rows["part"].str.startswith("layer")]
    (picture,) = pictures([READ_BACK], {"decoding": block})
    assert all(list(line.get_xdata()) == [0] for axes in picture.figure().axes for line in axes.lines)
    assert not list(pictures([READ_BACK], {"decoding": block[block["part"] == "fused"]}))
