"""The tables of search.md: trials of a search by fusion, importances, the Pareto front, and its confirmation."""

import warnings
from functools import cache

import optuna
import pandas as pd
from fusion_tables import difference
from judged import VERDICT, apart, verdicts
from optuna.exceptions import ExperimentalWarning
from optuna.study import Study, StudyDirection
from per_run import by_seed, stored
from written import Table, number, short, spread

from isoscope.platform.search import outcomes, trials_table

ACCURACY, A_1 = "objective/validation/accuracy", "objective/validation/a_1"
FUSION, A_1_TEST = "param/fusion", "posthoc/untouched/a_1"
CALLED = {
    "model.fusion.kernel_size": "kernel size",
    "model.fusion.normalisation": "normalisation",
    "penalty": "bars of the penalty",
    "penalty.weight": "weight of the penalty",
    "validation/accuracy": "accuracy",
    "validation/a_1": "a₁",
    "test/accuracy": "accuracy",
    "posthoc/untouched/a_1": "a₁",
}


@cache
def trials() -> pd.DataFrame:
    """Return the trials of the search, a row each, by number."""
    return stored("search/trials.parquet")


@cache
def study() -> Study:
    """Return the search's study in memory, as it was stored."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    directions = {"validation/accuracy": StudyDirection.MAXIMIZE, "validation/a_1": StudyDirection.MINIMIZE}
    found = optuna.create_study(directions=[*directions.values()])
    with warnings.catch_warnings(action="ignore", category=ExperimentalWarning):
        found.set_metric_names([*directions])
    found.set_user_attr("axis", "fusion")
    trials_table.add(found, trials_table.rebuilt(trials()))
    return found


def suggested() -> int | None:
    """Return the number of the suggested trial: the knee of the front."""
    found = outcomes.knee(outcomes.front(study()), study().directions)
    return None if found is None else found.number


def fusions() -> Table:
    """Return a row per fusion: finished and feasible trials, range of accuracy, least a₁ among the feasible."""
    complete = trials()[trials()["state"] == "COMPLETE"]
    rows = []
    for fusion, own in complete.groupby(FUSION, sort=True):
        kept = own[own["feasible"]]
        best, least = kept.loc[kept[ACCURACY].idxmax()], kept.loc[kept[A_1].idxmin()]
        rows.append((fusion, len(own), len(kept), *_pair(best), *reversed(_pair(least))))
    heads = ("accuracy, best", "its a₁", "a₁, least", "its accuracy")
    return Table(("fusion", "finished trials", "feasible", *heads), rows)


def _pair(trial: pd.Series) -> tuple[str, str]:
    return short(trial[ACCURACY]), short(trial[A_1])


def importances() -> Table:
    """Return each parameter's share of the variance of an objective, by fusion, with an interval over forests."""
    rows = [
        (
            one["architecture"],
            CALLED[one["objective"]],
            CALLED[one["parameter"]],
            one["trials"],
            number(one["importance"], 2),
            f"[{number(one['low'], 2)}, {number(one['high'], 2)}]",
        )
        for one in outcomes.importances(study()).to_dict("records")
    ]
    return Table(("fusion", "of", "parameter", "trials", "share of variance", "over forests"), rows)


def front() -> Table:
    """Return the Pareto front of accuracy and a₁, best accuracy first."""
    rows = []
    for _, one in trials()[trials()["on_front"]].sort_values(ACCURACY, ascending=False).iterrows():
        mark = " (suggested)" * (one["number"] == suggested())
        kernel = one["param/model.fusion.kernel_size"]
        more = kernel if pd.notna(kernel) else one["param/model.fusion.normalisation"]
        choices = (one[FUSION], "" if pd.isna(more) else more, one["param/penalty"])
        rows.append((f"{one['number']}{mark}", *choices, number(one["param/penalty.weight"], 2), *_pair(one)))
    heads = ("kernel size or normalisation", "bars", "weight", "accuracy", "a₁")
    return Table(("trial", "fusion", *heads), rows)


def confirmed() -> Table:
    """Return suggested − default on the test split over fresh seeds: accuracy, and a₁ of the whole split."""
    name, arms = "search/confirmed", ("found", "additive")
    a_1 = apart(*(by_seed(name, A_1_TEST)[arm] for arm in arms), items=False)
    rows = []
    for metric, tested in {"test/accuracy": difference(name, *arms), A_1_TEST: a_1}.items():
        ((*cells,),) = verdicts([tested], short, claims=False)
        rows.append((CALLED[metric], *(spread(by_seed(name, metric)[arm].values()) for arm in arms), *cells))
    return Table(("on the test split", "suggested", "default", *VERDICT), rows)


TABLES = {
    "search/fusions": fusions,
    "search/importances": importances,
    "search/front": front,
    "search/confirmed": confirmed,
}
