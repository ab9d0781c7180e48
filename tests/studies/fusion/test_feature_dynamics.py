"""Feature dynamics: every sentence at its coordinates, with its class; shared vectors are not drawn."""

import numpy as np
import pandas as pd

from isoscope.platform.figures.style import to_svg
from isoscope.studies.fusion.feature_dynamics import DYNAMICS, clouds

N, NAMES = 30, ("step-0", "step-8", "step-16")
LABELS = np.arange(N) % 2


def tables(layers: int = 3) -> tuple[pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(0)
    about = {"explained_1": 0.5, "explained_2": 0.125, "reference": "step-8", "seed": 0}
    frames = [
        {"layer": layer, "snapshot": name, "step": int(name[5:]), "degenerate": layer == 0, **about}
        for layer in range(layers)
        for name in NAMES
    ]
    planes = pd.concat(
        [
            pd.DataFrame({"layer": layer, "snapshot": name, "sentence": rng.permutation(N)}).assign(
                pc1=rng.normal(size=N) * (1 + number), pc2=rng.normal(size=N)
            )
            for layer in range(layers)
            for number, name in enumerate(NAMES)
        ],
        ignore_index=True,
    )
    label = LABELS[planes["sentence"]]
    names = np.array(["negative", "positive"])[label]
    return planes.assign(arm="fft", seed=0, label=label, **{"class": names}), pd.DataFrame(frames)


def test_points_are_the_tables_and_one_point_is_a_gap() -> None:
    planes, frames = tables()
    found = clouds(planes, frames)
    kept = found.dropna(subset="pc1").sort_values(["layer", "snapshot", "sentence"])
    own = planes[planes["layer"] > 0].sort_values(["layer", "snapshot", "sentence"])
    for column in ("pc1", "pc2", "class"):
        np.testing.assert_array_equal(kept[column], own[column])
    assert set(found.loc[found["layer"] == 0, "gap"]) == {"vectors shared: no geometry"}
    assert found.loc[found["layer"] > 0, "gap"].isna().all()
    figure = DYNAMICS.form(planes, frames)
    assert [any(patch.get_gid() == "hatched" for patch in axes.patches) for axes in figure.axes] == [True] * 3 + [
        False
    ] * 6
    assert to_svg(figure) == to_svg(DYNAMICS.form(planes, frames))


def test_notes_say_range_and_share_and_columns_the_snapshot() -> None:
    planes, frames = tables()
    found = clouds(planes, frames)
    one = planes[(planes["layer"] == 1) & (planes["snapshot"] == "step-8")]
    across, up = (float(np.ptp(one[name])) for name in ("pc1", "pc2"))
    own = found[(found["layer"] == 1) & (found["snapshot"] == "step-8")]
    assert set(own["note"]) == {f"{across:.2g} × {up:.2g}; 50 + 12"}
    assert set(found["panel"]) == {"update 0", "update 8\nchosen epoch", "update 16"}
    epochs = frames.assign(epoch=frames["step"].map({0: 0.0, 8: 1.0}))
    assert set(clouds(planes, epochs)["panel"]) == {"update 0\nepoch 0", "update 8\nepoch 1, chosen", "update 16"}
    numbers = clouds(planes.assign(**{"class": planes["label"]}), frames)
    assert set(numbers["class"]) == {"class 0", "class 1"}


def test_axes_that_snapshots_share_are_no_principal_components() -> None:
    planes, frames = tables()
    for how, said in {
        "joint": "first and second axis of the plane shared",
        "sign": "second principal component",
    }.items():
        about = frames.assign(alignment=how)
        assert said in DYNAMICS.caption(planes, about)  # type: ignore[operator]
        assert ("smaller share" in DYNAMICS.caption(planes, about)) == (how == "joint")  # type: ignore[operator]
    assert "Hatched: sentences share their vectors; at layer 0" in DYNAMICS.caption(planes, frames)  # type: ignore[operator]
