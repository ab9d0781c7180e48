"""Confusion matrices: shares of the actual class, counts, one scale for all."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure

from finished_runs import write_run
from isoscope.figures.style import to_svg
from isoscope.outputs import read_output
from isoscope.studies import classified
from isoscope.studies.confusion_matrices import confusion_matrices

CLASSES = ("negative", "neutral", "positive")


def confusion(folders: Sequence[Path]) -> pd.DataFrame:
    return classified.confusion([read_output(folder) for folder in folders])


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


def test_equal_tables_give_equal_bytes(tmp_path: Path) -> None:
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


def test_two_studies_are_refused(tmp_path: Path) -> None:
    folders = [write_run(tmp_path, "fft", 0, study=study) for study in ("one", "two")]
    with pytest.raises(ValueError, match="one study"):
        confusion_matrices(confusion(folders))


def test_no_rows_give_no_matrix() -> None:
    assert len(confusion_matrices(confusion([])).axes) == 1
