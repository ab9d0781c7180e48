"""Learning curves and confusion matrices show the given numbers, state n, and are reproducible."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import PolyCollection, QuadMesh
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from finished_runs import write_run
from isoscope.base.metric import Metric
from isoscope.platform.figures.style import ARM_COLOURS, to_svg
from isoscope.platform.outputs import read_output
from isoscope.studies import results, scored
from isoscope.studies.curves import bands, curves, seeds
from isoscope.studies.scored import confusion_matrices, training_curves
from isoscope.studies.view import pictures

ARMS = ("additive", "conv2d", "fft")


def made(root: Path, arms: tuple[str, ...] = ARMS, seeds: int = 3, **options: int) -> pd.DataFrame:
    return bands(curves([write_run(root, arm, seed, **options) for arm in arms for seed in range(seeds)]))


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_lines_are_the_means_and_bands_the_sd(tmp_path: Path) -> None:
    table = made(tmp_path)
    figure = training_curves(table)
    for axes, quantity in zip(figure.axes, ("accuracy", "loss"), strict=True):
        expected = [(arm, split) for arm in ARMS for split in ("train", "validation")]
        areas = [area for area in axes.collections if isinstance(area, PolyCollection)]
        for line, area, (arm, split) in zip(axes.lines, areas, expected, strict=True):
            rows = table[(table["arm"] == arm) & (table["metric"] == f"{split}/{quantity}")]
            np.testing.assert_array_equal(line.get_xdata(), rows["epoch"])
            np.testing.assert_array_equal(line.get_ydata(), rows["mean"])
            heights = area.get_paths()[0].vertices[:, 1]
            assert heights.max() == pytest.approx((rows["mean"] + rows["sd"]).max())
            assert heights.min() == pytest.approx((rows["mean"] - rows["sd"]).min())
            assert line.is_dashed() == (split == "train")
            assert to_hex(line.get_color()) == ARM_COLOURS[ARMS.index(arm)]


def test_each_seed_has_a_thin_line(tmp_path: Path) -> None:
    points = curves([write_run(tmp_path, arm, seed, accuracy=0.7 + seed / 10) for arm in ARMS for seed in range(3)])
    table = seeds(points)
    figure = training_curves(bands(points), table)
    for axes, quantity in zip(figure.axes, ("accuracy", "loss"), strict=True):
        thin = {line.get_gid(): line for line in axes.lines if "seed" in line.get_gid()}
        assert set(thin) == {f"arm:{arm}/seed:{seed}" for arm in ARMS for seed in range(3)}
        drawn = table[table["metric"] == f"validation/{quantity}"]
        for (arm, seed), rows in drawn.groupby(["arm", "seed"]):
            np.testing.assert_array_equal(thin[f"arm:{arm}/seed:{seed}"].get_ydata(), rows["value"])
    alone = training_curves(bands(points), table[table["seed"] == 0])
    assert not [line for line in alone.axes[0].lines if "seed" in line.get_gid()]


def test_the_legend_says_n(tmp_path: Path) -> None:
    assert legend(training_curves(made(tmp_path)))[:3] == ["additive, n = 3", "conv2d, n = 3", "fft, n = 3"]


def test_the_legend_says_where_seeds_are_missing(tmp_path: Path) -> None:
    folders = [write_run(tmp_path, "fft", seed, epochs=epochs) for seed, epochs in enumerate((6, 4, 2))]
    assert legend(training_curves(bands(curves(folders))))[0] == "fft, n = 3, from epoch 3: 2, from epoch 5: 1"


def test_one_seed_has_no_band(tmp_path: Path) -> None:
    figure = training_curves(made(tmp_path, seeds=1))
    for line, area in zip(figure.axes[0].lines, figure.axes[0].collections, strict=True):
        heights = np.unique(area.get_paths()[0].vertices[:, 1])
        np.testing.assert_array_equal(heights, np.unique(np.asarray(line.get_ydata())))
    assert legend(figure)[0] == "additive, n = 1"


def test_markers_and_colours_differ_between_arms(tmp_path: Path) -> None:
    figure = training_curves(made(tmp_path, arms=tuple("abcdefgh"), seeds=1))
    looks = {(to_hex(line.get_color()), line.get_marker()) for line in figure.axes[0].lines if not line.is_dashed()}
    assert len({colour for colour, _ in looks}) == len({marker for _, marker in looks}) == 8


def test_equal_tables_give_equal_bytes_in_any_process(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.to_csv(tmp_path / "bands.csv", index=False)
    code = (
        "import sys, pandas as pd\n"
        "from isoscope.platform.figures.style import to_svg\n"
        "from isoscope.studies.scored import training_curves\n"
        "sys.stdout.write(to_svg(training_curves(pd.read_csv(sys.argv[1]))))"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "bands.csv")]
    other = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    here = to_svg(training_curves(table))
    assert here == to_svg(training_curves(table)) == other
    assert "dc:date" not in here
    changed = table.assign(mean=table["mean"] + 1e-3)
    assert to_svg(training_curves(changed)) != here


def test_a_users_settings_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path, seeds=1)
    plain = to_svg(training_curves(table))
    monkeypatch.setitem(__import__("matplotlib").rcParams, "font.size", 25.0)
    monkeypatch.setitem(__import__("matplotlib").rcParams, "axes.grid", True)
    assert to_svg(training_curves(table)) == plain


@pytest.mark.parametrize("arm", ["$\\frac{", "_hidden", "<script>alert(1)</script>", "否定"])
def test_any_name_is_drawn_as_text(tmp_path: Path, arm: str) -> None:
    table = made(tmp_path, arms=("additive",), seeds=1).assign(arm=arm)
    figure = training_curves(table)
    assert legend(figure)[0] == f"{arm}, n = 1"
    assert "<script" not in to_svg(figure)


def test_no_rows_give_empty_panels() -> None:
    figure = training_curves(bands(curves([])))
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["Score", "Loss"]


@pytest.mark.parametrize(
    "objective, names, titles",
    [
        ("masked", ("loss", "accuracy"), ["Accuracy", "Loss (nats)"]),
        (
            *("alignment", ("loss", "error", "moved")),
            ["Squared error of the alignment", "Squared distance moved by the alignment"],
        ),
        ("a_plugin", ("loss", "score"), ["Score", "Loss"]),
    ],
)
def test_titles_and_units_follow_the_objective(objective: str, names: tuple[str, ...], titles: list[str]) -> None:
    metrics = pd.DataFrame([{"objective": objective, **Metric(name).recorded} for name in names])
    columns = {"arm": "one", "epoch": 1, "mean": 0.5, "sd": 0.1, "n": 2}
    table = pd.DataFrame([columns | {"metric": f"validation/{name}"} for name in names])
    drawn = [axes.get_title(loc="left").replace("\n", " ") for axes in training_curves(table, None, metrics).axes]
    assert [title.removesuffix(", per dimension") for title in drawn] == titles


CLASSES = ("negative", "neutral", "positive")


def confusion(folders: Sequence[Path]) -> pd.DataFrame:
    return results.confusion([read_output(folder) for folder in folders])


def meshes(figure: Figure, arms: int) -> list[QuadMesh]:
    return [axes.collections[0] for axes in figure.axes[:arms]]  # type: ignore[misc]


def test_shares_and_counts_are_those_of_the_table(tmp_path: Path) -> None:
    arms = ("additive", "fft")
    folders = [write_run(tmp_path, arm, seed, labels=CLASSES, items=90) for arm in arms for seed in (0, 1)]
    table = confusion(folders)
    figure = confusion_matrices(table)
    for arm, mesh, axes in zip(arms, meshes(figure, 2), figure.axes, strict=False):
        counts = table[table["arm"] == arm].groupby(["actual", "predicted"])["count"].sum().to_numpy().reshape(3, 3)
        share = counts / counts.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(np.asarray(mesh.get_array()), share)
        written = [text.get_text() for text in axes.texts]
        assert written == [f"{s:.2f}\n{c}" for s, c in zip(share.ravel(), counts.ravel(), strict=True)]
        assert axes.get_title(loc="left") == f"{arm}\nn = 2 seeds"


def test_the_scale_is_pinned(tmp_path: Path) -> None:
    table = confusion([write_run(tmp_path, "fft", 0, accuracy=0.5)])
    assert [mesh.get_clim() for mesh in meshes(confusion_matrices(table), 1)] == [(0.0, 1.0)]


def test_an_absent_class_has_share_zero() -> None:
    rows = [("fft", 0, actual, predicted, 5 * (actual == "a")) for actual in "ab" for predicted in "ab"]
    table = pd.DataFrame(rows, columns=["arm", "seed", "actual", "predicted", "count"])
    (mesh,) = meshes(confusion_matrices(table), 1)
    np.testing.assert_array_equal(np.asarray(mesh.get_array()), [[0.5, 0.5], [0.0, 0.0]])


def test_equal_counts_give_equal_bytes(tmp_path: Path) -> None:
    table = confusion([write_run(tmp_path, arm, 0) for arm in ("a", "b", "c", "d", "e")])
    assert to_svg(confusion_matrices(table)) == to_svg(confusion_matrices(table))


@pytest.mark.parametrize("name", ["$\\frac{", "<img src=x onerror=alert(1)>", "否定", "x" * 400])
def test_any_class_name_is_drawn_as_text(tmp_path: Path, name: str) -> None:
    table = confusion([write_run(tmp_path, "fft", 0, labels=(name, "other", "third"))])
    figure = confusion_matrices(table)
    assert "<img" not in to_svg(figure)
    assert max(len(label.get_text()) for label in figure.axes[0].get_xticklabels()) <= 24


def test_many_classes_keep_their_shares(tmp_path: Path) -> None:
    names = tuple(f"class {index}" for index in range(12))
    figure = confusion_matrices(confusion([write_run(tmp_path, "fft", 0, labels=names, items=120)]))
    assert all("\n" not in text.get_text() for text in figure.axes[0].texts)


@pytest.mark.parametrize("arms, published", [(("additive", "fft-none"), True), (("masked-additive",), False)])
def test_learning_curves_follow_a_published_figure_where_fusions_are_compared(
    arms: tuple[str, ...], published: bool
) -> None:
    none = pd.DataFrame({"arm": [], "seed": []})
    found = {"bands": pd.DataFrame({"arm": arms}), "seeds": none, "metrics": none}
    (training, *_) = pictures(scored.VIEWS[:1], found)
    assert training.remakes == ("Li 2025 (fusion), Figure 1" if published else None)
