"""The metrics that arms are compared by: of the last layer, at the chosen epoch, and all of a plugin's."""

import numpy as np
import pandas as pd

from isoscope.studies.fusion.tables import chosen_metrics


def test_metrics_are_those_of_the_last_layer_at_the_chosen_epoch() -> None:
    about = {"arm": "additive", "seed": 0, "measure": "similarity", "metric": "avg_sim", "vectors": "first"}
    rows = [about | {"layer": layer, "best": best} for layer in (0, 1, 2) for best in (False, True)]
    geometry = pd.DataFrame(rows).assign(value=lambda table: table["layer"] + 10.0 * table["best"])
    words, lacking = geometry.assign(vectors="words"), geometry.assign(metric="a_1", value=np.nan)
    found = chosen_metrics({"geometry": pd.concat([geometry, words, lacking])})
    assert found.dropna().to_dict("records") == [{"arm": "additive", "seed": 0, "metric": "avg_sim", "value": 12.0}]
    assert found["metric"].tolist() == ["avg_sim", "a_1"], "a metric without a number is known to be lacking"
    own = geometry.assign(measure="norms", metric="mean_norm")
    of_plugin = chosen_metrics({"geometry": pd.concat([own, own.assign(vectors="words")])})
    assert of_plugin["metric"].tolist() == ["mean_norm", "mean_norm of words"], "a plugin's measure, of all vectors"
    cosines = pd.DataFrame(
        [
            {"arm": "additive", "seed": 0, "part": part, "pairs": "all", "best": True, "cosine": 0.5}
            for part in ("word", "normed")
        ]
    )
    assert chosen_metrics({"cosines": cosines})["metric"].tolist() == ["tokens' cosine: all"]


def test_the_last_layer_is_that_of_each_arm() -> None:
    about = {"seed": 0, "measure": "similarity", "metric": "avg_sim", "vectors": "first", "best": True}
    depths = {"shallow": 2, "deep": 4}
    rows = [about | {"arm": arm, "layer": layer} for arm, depth in depths.items() for layer in range(depth + 1)]
    found = chosen_metrics({"geometry": pd.DataFrame(rows).assign(value=lambda table: table["layer"])})
    assert found.set_index("arm")["value"].to_dict() == depths
