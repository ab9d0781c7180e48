"""Train the runs of the profile dynamics_data and store their profiles; run it at the root of a checkout.

Needs `isoscope profile dynamics_data`, and `isoscope prepare` of its six tasks. Conditions of the data come in an order
in which the runs that are stored first already vary size, domain and language. Each run adds to
docs/results/dynamics/ when it is done:

data.csv                 its metrics; an arm is `<study>/<arm>`
data/profiles.parquet    its profile (`isoscope.studies.dynamics.run_profiles`): `nats` of the fixed set, and of the
                         `minibatch` estimator
data/closed.parquet      whether its allocation sums to the change of the loss

What is stored is not trained again: stop and start it at any time.
"""

import argparse
from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd
from dynamics_runs import OBJECTIVES, Job, finished, manifest_of, store, trained

from isoscope.platform.outputs import Output
from isoscope.studies.arms.scores_on_test import results
from isoscope.studies.dynamics.allocated_runs import allocated_runs
from isoscope.studies.dynamics.learning import learned, words
from isoscope.studies.dynamics.run_profiles import PART, halved, profiles
from isoscope.studies.dynamics.totals import closed

PART_NAME, SEEDS = "data", (0, 1, 2)


class Condition(NamedTuple):
    """A study of the profile, or one fraction of it."""

    study: str
    fraction: str | None = None
    objectives: Sequence[str] = OBJECTIVES

    @property
    def axes(self) -> dict[str, str]:
        return {"fraction": self.fraction} if self.fraction else {}


CONDITIONS = (
    *(Condition("captions_9958"), Condition("finnish"), Condition("news"), Condition("captions", "whole")),
    *(Condition("estonian"), Condition("german")),
    Condition("encyclopaedia", objectives=("masked", "causal")),
    *(Condition("captions", "tenth"), Condition("captions", "three_tenths")),
)


def jobs() -> dict[str, Job]:
    """Return the runs that are not stored, by study, arm and seed."""
    done = finished(PART_NAME)
    found = {}
    for condition in CONDITIONS:
        for objective in condition.objectives:
            for seed in SEEDS:
                axes = {"objective": objective, "fusion": "additive"} | condition.axes
                arm = f"{condition.study}/{'-'.join(axes.values())}"
                if (arm, str(seed)) not in done:
                    found[f"{arm}, {seed}"] = Job(condition.study, axes, seed)
    return found


def of_run(output: Output) -> dict[str, pd.DataFrame]:
    """Return a run's profile by both estimators, and its closure."""
    manifest = manifest_of(output)
    runs = allocated_runs(results([output], manifest["splits"]["test"]["rows"]))
    (only,) = runs
    fixed = profiles(runs, manifest, words(learned(runs, manifest)))
    minibatch = halved(only.minibatch).rename(columns={"nats": "minibatch"})
    return {"profiles": fixed.merge(minibatch, on=PART, how="outer", validate="1:1"), "closed": closed(runs)}


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    for _, output in trained(jobs()):
        store(PART_NAME, output, f"{output.run.study}/{output.run.arm}", of_run(output))


if __name__ == "__main__":
    main()
