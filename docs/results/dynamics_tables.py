"""The tables of dynamics.md, from the per-run tables in docs/results/dynamics/."""

from collections.abc import Callable, Mapping

import dynamics_stored
import numpy as np
import pandas as pd
from dynamics_agreement import damage_ranks, geometry_layers
from dynamics_claims import Shares, claims, claims_by_layer, claims_published, claims_relative, likeness, of, shares
from dynamics_decides import conditions, decides
from dynamics_hurting import claims_hurting, hurting, ranks
from dynamics_stored import (
    ATTENTION,
    COMPONENTS,
    FEED_FORWARD,
    PARTS,
    SHOWN,
    Lines,
    called,
    correlation,
    head,
    interval,
    metrics,
    number,
    order,
    parts,
    stored,
)
from dynamics_time import timing

GROUPS = {
    "word table": ("emb",),
    "positions": ("pos",),
    "keys and queries": ("query", "key"),
    "values and outputs": ("value", "out"),
    "feed-forward": FEED_FORWARD,
    "LayerNorm": ("LayerNorm",),
    "other": ("other",),
}
DAMAGES = {"zero": "set to 0", "start": "set back to the start"}


def rates() -> Lines:
    """Yield the validation loss at the end of a quarter of the updates, by arm and rate; the least is the arm's own."""
    table = pd.read_csv(dynamics_stored.STORED / "rates.csv")
    table[["arm", "rate"]] = table["arm"].str.split("@", expand=True)
    wide = table.pivot(index="arm", columns="rate", values="value")
    columns = sorted(wide, key=float)
    yield from head("arm", *columns, "own rate")
    for arm in sorted(wide.index, key=order):
        cells = " | ".join(number(wide.loc[arm, rate]) for rate in columns)
        yield f"| {called(arm)} | {cells} | {wide.loc[arm].astype(float).idxmin()} |"


def learned() -> Lines:
    """Yield per arm: seeds, parameters, validation loss, the counting models, the least margin, and test scores."""
    columns = ("seeds", "parameters", "validation loss", "unigrams", "trigrams", "least margin", "learned", "test loss")
    yield from head("arm", "training", *columns, "BLEU", "copied", left=2)
    for part in parts():
        table, points = stored(part, "learned"), metrics(part)
        test = points[points["metric"].str.startswith("test/")].pivot(
            index=["arm", "seed"], columns="metric", values="value"
        )
        for arm in sorted(set(table["arm"]), key=order):
            own, scores = table[table["arm"] == arm], test.loc[arm]
            losses = _spread(own["loss"])
            cells = [str(len(own)), f"{own['parameters'].iloc[0]:,}", losses]
            cells += [number(own[name].iloc[0]) if name in own else "–" for name in ("unigram", "trigram")]
            cells += [number(own["margin"].min()), own["word"].iloc[0], _spread(scores["test/loss"])]
            cells += [_spread(scores["test/bleu"], 1) if "test/bleu" in scores else "–"]
            cells += [_spread(scores["test/copied"]) if "test/copied" in scores else "–"]
            yield f"| {called(arm)} | {PARTS[part]} | {' | '.join(cells)} |"


def _spread(values: pd.Series, digits: int = 3) -> str:
    """Format mean ± sd."""
    if values.isna().all():
        return "–"
    return number(values.mean(), digits) + (f" ± {number(values.std(), digits)}" if len(values) > 1 else "")


def closure() -> Lines:
    """Yield per arm: closed intervals, and the largest gap over a whole training, over all runs and both sets."""
    columns = ("runs", "intervals", "closed", "worst gap / bound", "largest total gap", "of the change", "helping")
    yield from head("arm", "training", *columns, left=2)
    for part in parts():
        table = stored(part, "closed")
        for arm in sorted(set(table["arm"]), key=order):
            own = table[table["arm"] == arm]
            worst = own.loc[own["gap"].abs().idxmax()]
            closed = 100 * (1 - own["open"].sum() / own["intervals"].sum())
            cells = (
                *(str(own["seed"].nunique()), f"{own['intervals'].sum():,}", f"{closed:.1f} %"),
                *(number(own["worst"].max(), 2), f"{number(worst['gap'], 4, True)} nats"),
                *(f"{100 * abs(worst['gap'] / worst['change']):.2f} %", f"{100 * own['helping'].mean():.1f} %"),
            )
            yield f"| {called(arm)} | {PARTS[part]} | {' | '.join(cells)} |"


def components() -> Lines:
    """Yield the share of each component, summed over layers and stacks: fixed set with interval, and minibatch."""
    every = shares("own")
    columns = [f"{called(arm)}, {what}" for arm in sorted(every, key=order) for what in ("fixed set", "minibatch")]
    yield from head("share of the sum of all allocations", *columns)
    for component in COMPONENTS:
        cells = []
        for arm in sorted(every, key=order):
            cells.append(interval([of(one.fixed, component).mean() for one in every[arm].values()]))
            cells.append(interval([of(one.minibatch, component).mean() for one in every[arm].values()]))
        yield f"| {component} | {' | '.join(cells)} |"
    cells = []
    for arm in sorted(every, key=order):
        fixed, batch = (stored("own", table) for table in ("closed", "minibatch"))
        own = fixed[(fixed["arm"] == arm) & (fixed["set"] == SHOWN)]
        cells += [interval(own["change"], 2)]
        cells += [interval(batch[batch["arm"] == arm].groupby("seed")["nats"].sum(), 2)]
    yield f"| *nats in all* | {' | '.join(cells)} |"


def controls() -> Lines:
    """Yield the shares of groups of components in every training but the dense: what the objective is confounded with.

    `MLM` and `CLM` of half the depth are as deep as a stack of MT.
    """
    yield from head("arm", "training", "seeds", *GROUPS, left=2)
    for part in [one for one in parts() if one != "dense"]:
        every = shares(part)
        for arm in sorted(every, key=order):
            runs = every[arm].values()
            cells = [interval([of(one.fixed, *names).mean() for one in runs]) for names in GROUPS.values()]
            yield f"| {called(arm)} | {PARTS[part]} | {len(runs)} | {' | '.join(cells)} |"


def layers() -> Lines:
    """Yield the share of attention and of the feed-forward block of each layer."""
    columns = ("attention", "feed-forward", "minibatch: attention", "minibatch: feed-forward")
    yield from head("arm", "stack", "layer", *columns, left=3)
    every = shares("own")
    for arm in sorted(every, key=order):
        index = next(iter(every[arm].values())).fixed.index
        runs = every[arm].values()
        for stack, layer in sorted({(stack, layer) for stack, layer, _ in index if layer >= 0}):
            at = {"stacks": [stack], "layers": [layer]}
            cells = [
                interval([of(getattr(one, kind), *names, **at).mean() for one in runs])
                for kind in Shares._fields
                for names in (ATTENTION, FEED_FORWARD)
            ]
            yield f"| {called(arm)} | {stack} | {layer + 1} | {' | '.join(cells)} |"


def chords() -> Lines:
    """Yield the allocation of one training in nats by two schedules of intervals, per component: dense and sparse."""
    one, other = (
        stored(part, "folds").query("set == @SHOWN and seed == 0").groupby(["arm", "component"])["value"].sum()
        for part in ("dense", "own")
    )
    arms = sorted(set(one.index.get_level_values("arm")), key=order)
    kinds = ("500 single updates", "16 single updates", "difference")
    yield from head("component", *(f"{called(arm)}, {what}" for arm in arms for what in kinds))
    for component in COMPONENTS:
        cells = []
        for arm in arms:
            values = one[arm, component], other[arm, component]
            cells += [number(value, 3, True) for value in (*values, values[0] - values[1])]
        yield f"| {component} | {' | '.join(cells)} |"
    cells = []
    for arm in arms:
        both = [_feed_forward_minus_attention(table[arm]) for table in (one, other)]
        cells += [number(value, 3, True) for value in (*both, both[0] - both[1])]
    yield f"| *feed-forward − attention, shares* | {' | '.join(cells)} |"


def _feed_forward_minus_attention(by_component: pd.Series) -> float:
    """Return the difference of both shares."""
    both = by_component[list(FEED_FORWARD)].sum() - by_component[list(ATTENTION)].sum()
    return float(both / by_component.sum())


def damage() -> Lines:
    """Yield the rank correlation of a group's help with the damage of losing it, per arm and kind, by seed.

    Next to it that of the group's number of parameters with the damage.
    """
    table = damage_ranks(pd.read_csv(dynamics_stored.STORED / "damage.csv"))
    columns = ("groups", "Spearman's ρ", "ρ within components", "ρ of size", "seeds", "p < .05")
    yield from head("arm", "the group is", *columns, left=2)
    for arm in sorted(set(table["arm"]), key=order):
        for kind, own in table[table["arm"] == arm].groupby("kind", sort=False):
            cells = (
                str(own["groups"].iloc[0]),
                *(correlation(own[name]) for name in ("rho", "rho_within", "rho_size")),
            )
            within = f"{(own['p'] < 0.05).sum()}; within {(own['p_within'] < 0.05).sum()}"
            yield f"| {called(arm)} | {DAMAGES[str(kind)]} | {' | '.join(cells)} | {len(own)} | {within} |"


def geometry() -> Lines:
    """Yield r of a layer's help with its own geometry minus with that of other layers: mean over seeds, p by Holm."""
    table = geometry_layers(pd.read_csv(dynamics_stored.STORED / "geometry.csv"))
    columns = ("seeds", "difference of r", "interval", "p (Holm)", "detectable")
    yield from head("arm", "stack", "measure", "lag", *columns, left=3)
    for row in table.sort_values("arm", key=lambda arms: arms.map(order), kind="stable").to_dict("records"):
        bounds = "–" if pd.isna(row["low"]) else f"[{number(row['low'], 2, True)}, {number(row['high'], 2, True)}]"
        chances = (number(np.nan if row[name] is None else row[name], 2) for name in ("p_holm", "detectable"))
        cells = (str(row["lag"]), str(row["n"]), number(row["difference"], 2, True), bounds, *chances)
        yield f"| {called(row['arm'])} | {row['stack']} | {row['measure']} | {' | '.join(cells)} |"


_TABLES: Mapping[str, tuple[tuple[str, ...], Callable[[], Lines]]] = {
    "rates": ((), rates),
    "learned": (("own",), learned),
    "closure": (("own",), closure),
    "components": (("own",), components),
    "controls": (("own", "depth"), controls),
    "layers": (("own",), layers),
    "claims_published": (("own",), claims_published),
    "claims_by_layer": (("own",), claims_by_layer),
    "claims": (("own",), claims),
    "claims_relative": (("own",), claims_relative),
    "likeness": (("own", "depth"), likeness),
    "timing": (("own",), timing),
    "hurting": (("own",), lambda: hurting("own")),
    "ranks": (("own",), lambda: ranks("own")),
    "claims_hurting": (("own",), claims_hurting),
    "hurting_dense": (("dense",), lambda: hurting("dense")),
    "ranks_dense": (("dense",), lambda: ranks("dense")),
    "chords": (("dense", "own"), chords),
    "conditions": (("data",), conditions),
    "decides": (("data",), decides),
    "damage": (("damage",), damage),
    "geometry": (("geometry",), geometry),
}
"""Name → the parts whose runs it needs, and its lines."""
TABLES = {
    f"dynamics/{name}": lines
    for name, (needs, lines) in _TABLES.items()
    if all((dynamics_stored.STORED / f"{part}.csv").exists() for part in needs)
}
