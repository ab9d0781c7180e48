"""Does the allocation of a run agree with what its groups and layers do? Statistics of damage.csv and geometry.csv.

dynamics_inside.py writes both.
"""

from itertools import product

import numpy as np
import pandas as pd

from isoscope.platform.statistics.paired import in_family, paired_t
from isoscope.platform.statistics.rank_agreement import rank_correlation

MEASURES = ("a_1", "effective_rank", "avg_sim")
ALLOCATED = "allocated"


def damage_ranks(table: pd.DataFrame) -> pd.DataFrame:
    """Return Spearman's rho of help (−allocation) and damage over groups, per run and kind, with permutation p.

    `within`: with ranks taken relative to the component, so that sizes and kinds of parameters do not count. `size`: of
    the number of parameters and damage.
    """
    rows = []
    for (arm, seed, kind), own in table.groupby(["arm", "seed", "kind"], sort=False):
        values = -own[ALLOCATED].to_numpy(), own["damage"].to_numpy()
        every, within = rank_correlation(*values), rank_correlation(*values, strata=own["component"].to_list())
        about = {"arm": arm, "seed": seed, "kind": kind, "groups": every.n}
        size = rank_correlation(own["parameters"].to_numpy(float), values[1])
        found = {"rho": every.rho, "p": every.p, "rho_within": within.rho, "p_within": within.p}
        rows.append(about | found | {"rho_size": size.rho})
    return pd.DataFrame(rows)


def geometry_layers(table: pd.DataFrame, confidence: float = 0.95) -> pd.DataFrame:
    """Return whether a layer's geometry changes when this layer helps, rather than when any layer of its stack does.

    Pearson's r of the changes of help and geometry of a layer, minus the mean r of its help with the geometry of the
    stack's other layers, averaged over layers. Curves of a training change much at first and little later, whatever
    they are: this makes both r, and cancels in their difference. Mean over seeds with the t interval, p by Holm over
    all rows; `lag`: by how many snapshots the geometry comes later, fixed in advance.
    """
    rows = []
    for (arm, seed, stack), own in table[table["layer"] > 0].groupby(["arm", "seed", "stack"], sort=False):
        changes = own.pivot_table(index="update", columns=["measure", "layer"], values="value").dropna().diff().iloc[1:]
        if changes[ALLOCATED].shape[1] < 2:
            continue
        for measure, lag in product(MEASURES, (0, 1)):
            ends = slice(0, len(changes) - lag), slice(lag, len(changes))
            help_, shape = -changes[ALLOCATED].iloc[ends[0]].to_numpy(), changes[measure].iloc[ends[1]].to_numpy()
            count = help_.shape[1]
            r = np.corrcoef(help_.T, shape.T)[:count, count:]
            others = (r.sum() - np.trace(r)) / (count * (count - 1))
            about = {"arm": arm, "stack": stack, "measure": measure, "lag": lag, "seed": seed}
            rows.append(about | {"difference": np.trace(r) / count - others})
    keys = ["arm", "stack", "measure", "lag"]
    groups = list(pd.DataFrame(rows).groupby(keys, sort=False)["difference"]) if rows else []
    tests = [paired_t(values.tolist(), confidence=confidence) for _, values in groups]
    family = in_family(tests, confidence=confidence, power=0.8)
    found = []
    for (key, _), test, (p, detectable) in zip(groups, tests, family, strict=True):
        low, high = test.interval or (None, None)
        about = dict(zip(keys, key, strict=True)) | {"n": test.n, "difference": test.mean, "low": low, "high": high}
        found.append(about | {"p_holm": p, "detectable": detectable})
    return pd.DataFrame(found)
