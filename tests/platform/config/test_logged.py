"""The setting that makes runs log a metric is named for each metric that a setting turns on."""

import numpy as np
import pytest

from isoscope.platform.config.declared import logged_by
from isoscope.training.anisotropy import batch_figures, posthoc_figures, sample_figures

CLOUD = np.random.default_rng(0).standard_normal((60, 8))
CLASSES = np.arange(60) % 2


def test_every_metric_of_the_watch_names_it() -> None:
    names = {f"step/{name}" for name in batch_figures(CLOUD)}
    names |= {f"validation/{name}" for name in sample_figures(CLOUD, CLASSES, clusters=3)}
    names |= {f"posthoc/{name}" for name in posthoc_figures(CLOUD, CLASSES)}
    assert len(names) > 40
    assert {logged_by(name) for name in names} == {"it is logged where training.watch is set"}


@pytest.mark.parametrize(
    "metric, named",
    [
        ("step/penalty", "penalty.kind"),
        ("step/penalty_gradient_norm", "penalty.kind"),
        ("step/kept/class_1", "penalty.kind"),
        ("validation/matthews", "objective.kind classification logs it"),
        ("validation/moved", "objective.kind alignment logs it"),
        ("validation/allocation/word", "training.allocation"),
        ("slices", "training.slices"),
        ("speed/tokens_per_second", "not among the metrics"),
    ],
)
def test_a_metric_names_its_setting(metric: str, named: str) -> None:
    assert named in logged_by(metric)


@pytest.mark.parametrize("metric", ["validation/acuracy", "validation/own", "test/accuracy", ""])
def test_an_unknown_metric_has_none(metric: str) -> None:
    assert logged_by(metric) == ""
