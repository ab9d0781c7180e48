"""The tables of dynamics.md, from the per-run tables in docs/results/dynamics/."""

from collections.abc import Callable
from functools import partial

import pandas as pd
from dynamics_agreement import damage_ranks, geometry_layers
from dynamics_claims import BY_LAYER, CLAIMS, ONE, PUBLISHED, RELATIVE_CLAIMS, claimed, likeness
from dynamics_decides import conditions, decides
from dynamics_hurting import claims_hurting, hurting, ranks, timing
from dynamics_shares import (
    ATTENTION,
    COMPONENTS,
    FEED_FORWARD,
    PARTS,
    by_arm,
    called,
    names,
    of_part,
    on_fixed_set,
    parts,
    share_rows,
    summed,
)
from per_run import stored
from written import Table, between, correlation, grid, interval, number, same, spread, titled

from isoscope.platform.statistics.paired import Interval

GROUPS = {
    "emb": "word table",
    "pos": "positions",
    **dict.fromkeys(("query", "key"), "keys and queries"),
    **dict.fromkeys(("value", "out"), "values and outputs"),
    **dict.fromkeys(FEED_FORWARD, "feed-forward"),
    "LayerNorm": "LayerNorm",
    "other": "other",
}
DAMAGES = {"zero": "set to 0", "start": "set back to the start"}
ESTIMATORS = ("fixed set", "minibatch")
_SHORT = partial(number, digits=2)


def learned() -> Table:
    """Return per arm: seeds, parameters, validation loss, the counting models, the least margin, and test scores."""
    rows = []
    for part in parts():
        points = stored(f"dynamics/{part}.csv")
        test = points[points["metric"].str.startswith("test/")].pivot(
            index=["arm", "seed"], columns="metric", values="value"
        )
        for arm, own in by_arm(of_part(part, "learned")):
            scores, first = test.loc[arm], own.iloc[0]
            counting = (number(first.get(name)) for name in ("unigram", "trigram"))
            about = (called(arm), PARTS[part], len(own), f"{first['parameters']:,}", spread(own["loss"], number))
            bleu = spread(scores.get("test/bleu", ()), partial(number, digits=1))
            loss, copied = (spread(scores.get(f"test/{name}", ()), number) for name in ("loss", "copied"))
            rows.append((*about, *counting, number(own["margin"].min()), first["word"], loss, bleu, copied))
    columns = ("seeds", "parameters", "validation loss", "unigrams", "trigrams", "least margin", "learned", "test loss")
    return Table(("arm", "training", *columns, "BLEU", "copied"), rows)


def closure() -> Table:
    """Return per arm: closed intervals, and the largest gap over a whole training, over all runs and both sets."""
    rows = []
    for part in parts():
        for arm, own in by_arm(of_part(part, "closed")):
            worst = own.loc[own["gap"].abs().idxmax()]
            closed = 100 * (1 - own["open"].sum() / own["intervals"].sum())
            about = (called(arm), PARTS[part], own["seed"].nunique(), f"{own['intervals'].sum():,}", f"{closed:.1f} %")
            gap = (f"{number(worst['gap'], 4, True)} nats", f"{100 * abs(worst['gap'] / worst['change']):.2f} %")
            rows.append((*about, number(own["worst"].max(), 2), *gap, f"{100 * own['helping'].mean():.1f} %"))
    columns = ("runs", "intervals", "closed", "worst gap / bound", "largest total gap", "of the change", "helping")
    return Table(("arm", "training", *columns), rows)


def components() -> Table:
    """Return the share of each component, summed over layers and stacks: fixed set with interval, and minibatch."""
    table = share_rows("own")
    arms = names(table["arm"])
    sums = summed(table.assign(what=_what(table, table["estimator"])), "what", "seed", "component")
    columns = same(f"{name}, {estimator}" for name in arms.values() for estimator in ESTIMATORS)
    rows = {"component": "share of the sum of all allocations"}
    shown = grid(titled(sums, component=same(COMPONENTS)), rows, "what", columns)
    closed = on_fixed_set("own", "closed").set_index(["arm", "seed"])["change"]
    both = (closed, of_part("own", "minibatch").groupby(["arm", "seed"])["nats"].sum())
    nats = (interval(totals.loc[arm], 2) for arm in arms for totals in both)
    return shown._replace(rows=[*shown.rows, ("*nats in all*", *nats)])


def _what(table: pd.DataFrame, of: pd.Series) -> pd.Series:
    return table["arm"].map(called) + ", " + of


def controls() -> Table:
    """Return the shares of groups of components in every training but the dense: what the objective is confounded with.

    `MLM` and `CLM` of half the depth are as deep as a stack of MT.
    """
    found = []
    for part in [one for one in parts() if one != "dense"]:
        table = share_rows(part).query("estimator == 'fixed set'")
        sums = summed(table.assign(group=table["component"].map(GROUPS)), "arm", "seed", "group")
        found.append(titled(sums.assign(training=PARTS[part]), arm=names(sums["arm"])))
    table = pd.concat(found, ignore_index=True)
    return grid(table, same(("arm", "training", "seeds")), "group", same(GROUPS.values()))


def layers() -> Table:
    """Return the share of attention and of the feed-forward block of each layer."""
    table = share_rows("own").query("layer >= 0")
    block = dict.fromkeys(ATTENTION, "attention") | dict.fromkeys(FEED_FORWARD, "feed-forward")
    before = table["estimator"].map({"fixed set": "", "minibatch": "minibatch: "})
    what = {"what": before + table["component"].map(block), "layer": table["layer"] + 1}
    sums = summed(table.assign(**what), "arm", "stack", "layer", "seed", "what")
    columns = same(("attention", "feed-forward", "minibatch: attention", "minibatch: feed-forward"))
    return grid(titled(sums, arm=names(sums["arm"])), same(("arm", "stack", "layer")), "what", columns)


def chords() -> Table:
    """Return the allocation of one training in nats by two schedules of intervals, per component: dense and sparse."""
    schedules = {"dense": "500 single updates", "own": "16 single updates"}
    folds = [on_fixed_set(part, "folds").query("seed == 0") for part in schedules]
    sums = [one.groupby(["arm", "component"])["value"].sum() for one in folds]
    both = pd.concat(sums, axis=1, keys=[*schedules.values()])
    arms, last = names(both.index.unique("arm")), "*feed-forward − attention, shares*"
    shares = {(arm, last): _feed_forward_minus_attention(both.loc[arm]) for arm in arms}
    both = pd.concat([both, pd.DataFrame(shares).T]).rename_axis(["arm", "component"])
    both["difference"] = both.iloc[:, 0] - both.iloc[:, 1]
    table = both.reset_index().melt(["arm", "component"], var_name="schedule")
    table = table.assign(what=_what(table, table["schedule"]))
    columns = same(f"{name}, {schedule}" for name in arms.values() for schedule in both)
    ordered = titled(table, component=same((*COMPONENTS, last)))
    return grid(ordered, {"component": "component"}, "what", columns, lambda one: number(one.iloc[0], 3, True))


def _feed_forward_minus_attention(nats: pd.DataFrame) -> pd.Series:
    """Return the difference of both shares, by schedule; rows: components."""
    return (nats.loc[[*FEED_FORWARD]].sum() - nats.loc[[*ATTENTION]].sum()) / nats.sum()


def damage() -> Table:
    """Return the rank correlation of a group's help with the damage of losing it, per arm and kind, by seed.

    Next to it that of the group's number of parameters with the damage.
    """
    rows = []
    for arm, table in by_arm(damage_ranks(stored("dynamics/damage.csv"))):
        for kind, own in table.groupby("kind", sort=False):
            within = f"{(own['p'] < 0.05).sum()}; within {(own['p_within'] < 0.05).sum()}"
            found = (correlation(own[name]) for name in ("rho", "rho_within", "rho_size"))
            rows.append((called(arm), DAMAGES[str(kind)], own["groups"].iloc[0], *found, len(own), within))
    columns = ("groups", "Spearman's ρ", "ρ within components", "ρ of size", "seeds", "p < .05")
    return Table(("arm", "the group is", *columns), rows)


def geometry() -> Table:
    """Return r of a layer's help with its own geometry minus with that of other layers: mean over seeds, p by Holm."""
    rows = []
    for arm, table in by_arm(geometry_layers(stored("dynamics/geometry.csv"))):
        for row in table.to_dict("records"):
            about = (row[name] for name in ("stack", "measure", "lag", "n"))
            ends = None if pd.isna(row["low"]) else Interval(row["low"], row["high"])
            cells = (_SHORT(row["difference"], sign=True), between(ends, _SHORT))
            rows.append((called(arm), *about, *cells, _SHORT(row["p_holm"]), _SHORT(row["detectable"])))
    columns = ("seeds", "difference of r", "interval", "p (Holm)", "detectable")
    return Table(("arm", "stack", "measure", "lag", *columns), rows)


_SHARES = "difference of shares"
TABLES: dict[str, Callable[[], Table]] = {
    "dynamics/likeness": likeness,
    "dynamics/claims_published": partial(claimed, _SHARES, PUBLISHED),
    "dynamics/decides": decides,
    "dynamics/learned": learned,
    "dynamics/closure": closure,
    "dynamics/components": components,
    "dynamics/controls": controls,
    "dynamics/layers": layers,
    "dynamics/claims_by_layer": partial(claimed, f"{ONE}, over the mean", BY_LAYER, relative=True),
    "dynamics/claims": partial(claimed, _SHARES, CLAIMS),
    "dynamics/claims_relative": partial(claimed, "difference over the mean", RELATIVE_CLAIMS, relative=True),
    "dynamics/timing": timing,
    "dynamics/hurting": partial(hurting, "own"),
    "dynamics/ranks": partial(ranks, "own"),
    "dynamics/claims_hurting": claims_hurting,
    "dynamics/hurting_dense": partial(hurting, "dense"),
    "dynamics/ranks_dense": partial(ranks, "dense"),
    "dynamics/chords": chords,
    "dynamics/conditions": conditions,
    "dynamics/damage": damage,
    "dynamics/geometry": geometry,
}
