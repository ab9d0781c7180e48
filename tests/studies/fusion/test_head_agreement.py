"""Agreement of heads: a line per pair of arms, with controls, on a scale from 0 to 1."""

import pandas as pd
import pytest

from isoscope.figures.style import to_svg
from isoscope.studies.fusion.head_agreement import head_agreement


def table(arms: tuple[str, ...] = ("additive", "conv2d", "fft"), seeds: int = 2) -> pd.DataFrame:
    rows = []
    for layer in (1, 2, 3):
        for seed in range(seeds):
            for place, arm in enumerate(arms):
                base = {"seed": seed, "layer": layer, "heads": 4, "n": 3, "unpaired": 0.3, "arm": arm}
                rows.append({**base, "differ": "random", "other": arm, "other_seed": seed, "agreement": 0.4})
                if seed + 1 < seeds:
                    rows.append({**base, "differ": "seeds", "other": arm, "other_seed": seed + 1, "agreement": 0.8})
                rows += [
                    {**base, "differ": "arms", "other": other, "other_seed": seed, "agreement": 0.5 + 0.1 * seed}
                    for other in arms[place + 1 :]
                ]
    return pd.DataFrame(rows)


def test_a_line_for_every_two_arms_and_two_controls_for_each() -> None:
    left, right = head_agreement(table()).axes
    lines = [one for one in left.get_lines() if len(one.get_xdata()) == 3]
    assert len(lines) == 3
    assert lines[0].get_ydata() == pytest.approx([0.55] * 3)
    values = sorted(one.get_ydata()[0] for one in right.get_lines() if len(one.get_xdata()) == 3)
    assert values == pytest.approx([0.4] * 3 + [0.8] * 3)
    for axes in (left, right):
        assert axes.get_ylim() == (-0.02, 1.02)
    assert [text.get_text() for text in left.get_legend().get_texts()] == [
        "additive and conv2d", "additive and fft", "conv2d and fft",
    ]  # fmt: skip
    assert "3 sentences" in left.get_ylabel()


def test_one_arm_with_one_seed_has_its_twin_alone() -> None:
    figure = head_agreement(table(("additive",), seeds=1))
    left, right = figure.axes
    assert any(patch.get_gid() == "hatched" for patch in left.patches)
    assert len([one for one in right.get_lines() if len(one.get_xdata()) == 3]) == 1
    assert to_svg(figure) == to_svg(head_agreement(table(("additive",), seeds=1)))


def test_nothing_is_not_drawn() -> None:
    with pytest.raises(ValueError, match="nothing to draw"):
        head_agreement(table()[:0])
