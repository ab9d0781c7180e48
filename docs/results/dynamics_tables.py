"""The tables of dynamics.md, from the per-run tables in docs/results/dynamics/, which dynamics_runs.py stores.

`isoscope analyse` makes the same tables (`isoscope.studies.dynamics`); here each row has the seed of its run.
`folds` has sums over training by fold of the sentences, `minibatch` the sums of the minibatch estimator.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from isoscope.statistics.paired import Interval, in_family, judge, paired_t, two_way_interval
from isoscope.studies.dynamics.hurting_counts import COUNTED, PUBLISHED

STORED = Path(__file__).parent / "dynamics"
CONFIDENCE, POWER, MARGIN = 0.95, 0.8, 0.01
NAMES = {"masked": "MLM", "causal": "CLM", "translation": "MT"}
ATTENTION, FEED_FORWARD = ("query", "key", "value", "out"), ("W1", "W2")
COMPONENTS = ("emb", "pos", *ATTENTION, *FEED_FORWARD, "LayerNorm", "other")
STACKS = {"enc": "*layers of the encoder*", "cross": "*cross-attention*", "dec": "*layers of the decoder*"}
SHOWN = "validation"
BEYOND = 0.2
"""Share of its sum over training by which a part's cumulative allocation may leave the span from 0 to this sum."""
Lines = Iterator[str]
Measure = Callable[[pd.DataFrame], NDArray[np.float64]]
"""From a run's shares of the change of the loss, rows (stack, layer, component), to a number per column."""


def stored(part: str, table: str) -> pd.DataFrame:
    """Return a stored table of a part's runs, ordered by arm and seed."""
    return pd.read_parquet(STORED / part / f"{table}.parquet").sort_values(["arm", "seed"], kind="stable")


def metrics(part: str) -> pd.DataFrame:
    """Return a part's metrics: digest, commit, arm, seed, metric, epoch, step, value."""
    return pd.read_csv(STORED / f"{part}.csv")


def parts() -> list[str]:
    """Return the parts that have stored runs."""
    return [name for name in PARTS if (STORED / f"{name}.csv").exists()]


PARTS = {
    "own": "own rate",
    "common": "common rate",
    "dense": "own rate, dense",
    "depth": "half of the layers",
    "depth_common": "half of the layers, common rate",
    "part": "15 % of the loss",
    "more": "6.7 × the sentences",
    "fusions": "own rate",
}


def called(arm: str) -> str:
    """Return an arm's name on the page, such as `CLM, conv2d`."""
    objective, _, fusion = arm.partition("-")
    name = NAMES.get(objective, objective.replace("causal_part", "CLM"))
    return name if fusion == "additive" else f"{name}, {fusion}"


def number(value: float, digits: int = 3, sign: bool = False) -> str:
    """Format a number; a dash for none."""
    return "–" if value is None or np.isnan(value) else f"{value:{'+' if sign else ''},.{digits}f}".replace("-", "−")


def interval(values: Sequence[float], digits: int = 3) -> str:
    """Format the mean over seeds and its t interval; below three seeds the mean alone."""
    found = paired_t(list(values), confidence=CONFIDENCE)
    bounds = found.interval
    shown = f" [{number(bounds.low, digits)}, {number(bounds.high, digits)}]" if bounds else ""
    return number(found.mean, digits) + shown


def head(*columns: str, left: int = 1) -> Lines:
    """Yield the first two lines of a table, with numbers to the right of the first `left` columns."""
    yield f"| {' | '.join(columns)} |"
    yield f"|{'---|' * left}{'---:|' * (len(columns) - left)}"


def rates() -> Lines:
    """Yield the validation loss at the end of a quarter of the updates, by arm and rate; the least is the arm's own."""
    table = pd.read_csv(STORED / "rates.csv")
    table[["arm", "rate"]] = table["arm"].str.split("@", expand=True)
    wide = table.pivot(index="arm", columns="rate", values="value")
    columns = sorted(wide, key=float)
    yield from head("arm", *columns, "own rate")
    for arm in sorted(wide.index, key=_order):
        cells = " | ".join(number(wide.loc[arm, rate]) for rate in columns)
        yield f"| {called(arm)} | {cells} | {wide.loc[arm].astype(float).idxmin()} |"


def _order(arm: str) -> tuple[int, int, str]:
    objective, _, fusion = arm.partition("-")
    names = [*NAMES, "causal_part"]
    return ("additive", "conv2d", "fft").index(fusion), names.index(objective), arm


def learned() -> Lines:
    """Yield per arm: seeds, parameters, validation loss, the counting models, the least margin, and test scores."""
    columns = ("seeds", "parameters", "validation loss", "unigrams", "trigrams", "least margin", "learned", "test loss")
    yield from head("arm", "training", *columns, "BLEU", "copied", left=2)
    for part in parts():
        table, points = stored(part, "learned"), metrics(part)
        test = points[points["metric"].str.startswith("test/")].pivot(
            index=["arm", "seed"], columns="metric", values="value"
        )
        for arm in sorted(set(table["arm"]), key=_order):
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
        for arm in sorted(set(table["arm"]), key=_order):
            own = table[table["arm"] == arm]
            worst = own.loc[own["gap"].abs().idxmax()]
            closed = 100 * (1 - own["open"].sum() / own["intervals"].sum())
            cells = (
                *(str(own["seed"].nunique()), f"{own['intervals'].sum():,}", f"{closed:.1f} %"),
                *(number(own["worst"].max(), 2), f"{number(worst['gap'], 4, True)} nats"),
                *(f"{100 * abs(worst['gap'] / worst['change']):.2f} %", f"{100 * own['helping'].mean():.1f} %"),
            )
            yield f"| {called(arm)} | {PARTS[part]} | {' | '.join(cells)} |"


class Shares(NamedTuple):
    """A run's shares of the change of the loss: on the fixed set, by fold `[groups, 8]`; by the minibatch estimator."""

    fixed: pd.DataFrame
    minibatch: pd.DataFrame


def shares(part: str) -> dict[str, dict[int, Shares]]:
    """Return arm → seed → shares, rows (stack, layer, component).

    A share is an allocation over the sum of all allocations of the run; a positive share helps. A fold's number is
    `share + (fold − share · fold's total) / total`: the ratio's linear form (as `training.allocation.over_folds`,
    Cochran 1977). The folds' mean is the share of the whole set, and what moves all groups of a fold alike is no noise.
    """
    folds, batch = stored(part, "folds"), stored(part, "minibatch")
    folds = folds[folds["set"] == SHOWN]
    names = [name for name in folds if name.startswith("fold_")]
    keys = ["stack", "layer", "component"]
    found: dict[str, dict[int, Shares]] = {}
    for (arm, seed), own in folds.groupby(["arm", "seed"], sort=False):
        of_batch = batch[(batch["arm"] == arm) & (batch["seed"] == seed)].set_index(keys)[["nats"]]
        of_folds, total = own.set_index(keys)[names], own["value"].sum()
        share = of_folds.mean(axis=1) / total
        fixed = (of_folds - share.to_numpy()[:, None] * of_folds.sum().to_numpy()) / total
        fixed = fixed.add(share, axis=0)
        found.setdefault(arm, {})[int(seed)] = Shares(fixed, of_batch / of_batch["nats"].sum())
    return found


def components() -> Lines:
    """Yield the share of each component, summed over layers and stacks: fixed set with interval, and minibatch."""
    every = shares("own")
    columns = [f"{called(arm)}, {what}" for arm in sorted(every, key=_order) for what in ("fixed set", "minibatch")]
    yield from head("share of the change of the loss", *columns)
    for component in COMPONENTS:
        cells = []
        for arm in sorted(every, key=_order):
            cells.append(interval([_of(one.fixed, component).mean() for one in every[arm].values()]))
            cells.append(interval([_of(one.minibatch, component).mean() for one in every[arm].values()]))
        yield f"| {component} | {' | '.join(cells)} |"
    cells = []
    for arm in sorted(every, key=_order):
        fixed, batch = (stored("own", table) for table in ("closed", "minibatch"))
        own = fixed[(fixed["arm"] == arm) & (fixed["set"] == SHOWN)]
        cells += [interval(own["change"], 2)]
        cells += [interval(batch[batch["arm"] == arm].groupby("seed")["nats"].sum(), 2)]
    yield f"| *nats in all* | {' | '.join(cells)} |"


def _of(table: pd.DataFrame, *names: str, stack: str | None = None, layers: Sequence[int] = ()) -> NDArray[np.float64]:
    """Return the sum over groups of these components, of a stack and of these layers, per column."""
    index = table.index.to_frame()
    chosen = index["component"].isin(names)
    if stack:
        chosen &= index["stack"] == stack
    if layers:
        chosen &= index["layer"].isin(layers)
    found: NDArray[np.float64] = table[chosen].to_numpy(dtype=float).sum(0)
    return found


def layers() -> Lines:
    """Yield the share of attention and of the feed-forward block of each layer."""
    columns = ("attention", "feed-forward", "minibatch: attention", "minibatch: feed-forward")
    yield from head("arm", "stack", "layer", *columns, left=3)
    every = shares("own")
    for arm in sorted(every, key=_order):
        index = next(iter(every[arm].values())).fixed.index
        runs = every[arm].values()
        for stack, layer in sorted({(stack, layer) for stack, layer, _ in index if layer >= 0}):
            at = {"stack": stack, "layers": [layer]}
            cells = [
                interval([_of(getattr(one, kind), *names, **at).mean() for one in runs])
                for kind in Shares._fields
                for names in (ATTENTION, FEED_FORWARD)
            ]
            yield f"| {called(arm)} | {stack} | {layer + 1} | {' | '.join(cells)} |"


def hurting(part: str) -> Lines:
    """Yield per component: the published count, and how often it hurts here, by what is counted."""
    table = stored(part, "hurting")
    table = table[table["unit"] == "component"].groupby("component")
    arms = sorted(set(stored(part, "learned")["arm"]), key=_order)
    counted = [name for name in COUNTED if (stored(part, "hurting")["counted"] == name).any()]
    columns = [f"{called(arm)}: published" if name == "" else name for arm in arms for name in ("", *counted)]
    yield from head("component", *columns)
    for component in COMPONENTS:
        cells = []
        for arm in arms:
            known = PUBLISHED[arm.partition("-")[0]].counts.get(component)
            cells.append("–" if known is None else f"{known:,}")
            own = table.get_group(component)
            cells += [_hurts(own[(own["arm"] == arm) & (own["counted"] == name)]) for name in counted]
        yield f"| {component} | {' | '.join(cells)} |"


def _hurts(own: pd.DataFrame) -> str:
    """Format the share of cases that hurt and, with folds, that surely hurt, each with what noise would give."""
    if own.empty:
        return "–"
    mean = own[["cases", "hurts", "surely", "hurts_by_noise", "surely_by_noise"]].mean()
    share = {name: 100 * mean[name] / mean["cases"] for name in mean.index}
    text = f"{share['hurts']:.1f} %"
    if np.isnan(mean["surely"]):
        return text
    return f"{text} ({share['hurts_by_noise']:.0f}); {share['surely']:.1f} % ({share['surely_by_noise']:.1f})"


def ranks(part: str) -> Lines:
    """Yield the agreement of each run's ranks of components with the published ranks, and the last that hurts."""
    table = stored(part, "hurting_published")
    columns = ("runs", "Kendall's τ, by seed", "p", "last that hurts", "warm-up", "published last")
    yield from head("arm", "counted", *columns, left=2)
    for arm in sorted(set(table["arm"]), key=_order):
        for counted in COUNTED:
            own = table[(table["arm"] == arm) & (table["counted"] == counted)]
            if own.empty:
                continue
            taus = ", ".join(number(value, 2, True) for value in own["tau"])
            chances = ", ".join(number(value, 3) for value in own["p"])
            last = ", ".join(f"{value:,}" for value in own["last"])
            warm, published = own["warmup"].iloc[0], own["published_last"].iloc[0]
            cells = (str(len(own)), taus, chances, last, f"{warm:,}", f"{published:,} of 125,000")
            yield f"| {called(arm)} | {counted} | {' | '.join(cells)} |"


class Claim(NamedTuple):
    """A published claim as a difference that it says is above 0, for one arm of the part `own`."""

    text: str
    arm: str
    measure: Measure


def _difference(*pairs: tuple[Sequence[str], str | None, Sequence[int]]) -> Measure:
    """Return the mean share per layer of the first groups minus that of the second."""

    def measure(table: pd.DataFrame) -> NDArray[np.float64]:
        one, other = (
            _of(table, *names, stack=stack, layers=layers) / max(1, len(layers)) for names, stack, layers in pairs
        )
        return one - other

    return measure


_ALL: tuple[str | None, Sequence[int]] = (None, ())
CLAIMS = (
    *(
        Claim(f"{called(arm)}: feed-forward − attention", arm, _difference((FEED_FORWARD, *_ALL), (ATTENTION, *_ALL)))
        for arm in ("masked-additive", "causal-additive", "translation-additive")
    ),
    *(
        Claim(f"{called(arm)}: feed-forward − word table", arm, _difference((FEED_FORWARD, *_ALL), (("emb",), *_ALL)))
        for arm in ("masked-additive", "causal-additive", "translation-additive")
    ),
    *(
        Claim(
            f"{called(arm)}: feed-forward of the upper − the lower layers{title}",
            arm,
            _difference((FEED_FORWARD, stack, upper), (FEED_FORWARD, stack, lower)),
        )
        for arm, title, stack, lower, upper in (
            ("masked-additive", "", "enc", (0, 1), (2, 3)),
            ("causal-additive", "", "dec", (0, 1), (2, 3)),
            ("translation-additive", ", encoder", "enc", (0,), (1,)),
            ("translation-additive", ", decoder", "dec", (0,), (1,)),
        )
    ),
    Claim(
        "CLM: attention of the middle − the outer layers",
        "causal-additive",
        _difference((ATTENTION, "dec", (1, 2)), (ATTENTION, "dec", (0, 3))),
    ),
)


class Found(NamedTuple):
    """A claim's numbers: by seed and fold of the sentences on the fixed set, and by seed of the minibatch estimator."""

    text: str
    folds: NDArray[np.float64]
    minibatch: Sequence[float]


def claims() -> Lines:
    """Yield the claims about shares of components and layers."""
    every = shares("own")
    found = []
    for claim in CLAIMS:
        runs = list(every[claim.arm].values())
        folds = np.stack([claim.measure(one.fixed) for one in runs])
        found.append(Found(claim.text, folds, [float(claim.measure(one.minibatch)[0]) for one in runs]))
    yield from judged("difference of shares", found)


def likeness() -> Lines:
    """Yield whether a stack of MT is more like MLM or CLM of its depth: differences of cosines of profiles.

    A profile: shares of components × layers of a stack. Runs of the same seed are paired.
    """
    translation, single = shares("own")["translation-additive"], shares("depth")
    both = [seed for seed in single["masked-additive"] if seed in single["causal-additive"] and seed in translation]
    found = []
    for stack, text, like, unlike in (
        ("enc", "MT's encoder: cosine with MLM − with CLM", "masked-additive", "causal-additive"),
        ("dec", "MT's decoder: cosine with CLM − with MLM", "causal-additive", "masked-additive"),
    ):
        fixed, minibatch = (
            np.stack(
                [
                    _cosine(getattr(translation[seed], kind), getattr(single[like][seed], kind), stack)
                    - _cosine(getattr(translation[seed], kind), getattr(single[unlike][seed], kind), stack)
                    for seed in both
                ]
            )
            for kind in Shares._fields
        )
        found.append(Found(text, fixed, list(minibatch[:, 0])))
    yield from judged("difference of cosines", found)


def _cosine(both: pd.DataFrame, single: pd.DataFrame, stack: str) -> NDArray[np.float64]:
    """Return the cosine of the profiles of an encoder-decoder's stack and of a model of one stack, by jackknife folds.

    Noise of the sentences pulls a cosine towards 0, more for a profile of few predicted tokens. The pseudo-values
    `F · c − (F − 1) · c₋f`, with c₋f from all folds but f, have a mean without most of this bias. A single column,
    which has no folds, has its plain cosine.
    """
    profiles = []
    for table, own in ((both, stack), (single, None)):
        index = table.index.to_frame()
        chosen = (index["layer"] >= 0) & ((index["stack"] == own) if own else True)
        profiles.append(table[chosen].droplevel("stack").sort_index().to_numpy(dtype=float))
    one, other = profiles
    folds = one.shape[1]
    whole = _cosines(one.mean(1, keepdims=True), other.mean(1, keepdims=True))
    if folds == 1:
        return whole
    without = ((table.sum(1, keepdims=True) - table) / (folds - 1) for table in (one, other))
    return folds * whole - (folds - 1) * _cosines(*without)


def _cosines(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the cosine of each column with its counterpart."""
    found: NDArray[np.float64] = (one * other).sum(0) / np.sqrt((one**2).sum(0) * (other**2).sum(0))
    return found


def judged(title: str, claims: Sequence[Found]) -> Lines:
    """Yield each claim with its intervals and verdict on the fixed set, and its mean with the minibatch estimator.

    A claim says that a number is above 0. p by Holm over the table. Over sentences: the eight folds of the set.
    """
    tests = [paired_t(list(one.folds.mean(1)), confidence=CONFIDENCE) for one in claims]
    family = in_family(tests, confidence=CONFIDENCE, power=POWER)
    columns = ("seeds", "mean", "over seeds", "over seeds and sentences", "p (Holm)", "detectable", "verdict")
    yield from head(title, *columns, "minibatch estimator")
    for claim, test, (p, detectable) in zip(claims, tests, family, strict=True):
        two_way = two_way_interval(claim.folds, confidence=CONFIDENCE)
        verdict = judge(test, two_way, p_holm=p, detectable=detectable, confidence=CONFIDENCE, margin=MARGIN)
        opposite = "the opposite " * (verdict.word == "holds" and test.mean < 0)
        cells = (str(test.n), number(test.mean, 3, True), _bounds(test.interval), _bounds(two_way))
        word = f"{opposite}*{verdict.word}*: {verdict.reason}"
        chances = (number(np.nan if one is None else one) for one in (p, detectable))
        yield f"| {claim.text} | {' | '.join((*cells, *chances, word, interval(claim.minibatch)))} |"


def _bounds(found: Interval | None) -> str:
    return "–" if found is None else f"[{number(found.low, 3, True)}, {number(found.high, 3, True)}]"


def halves(part: str = "own") -> dict[str, pd.DataFrame]:
    """Return arm → the update by which a component or stack has half of its allocation: a row per seed.

    NaN where the cumulative allocation exceeds its end by more than `BEYOND`: such a part gains and then loses, so
    "half" has no meaning.
    """
    table = stored(part, "course")
    found: dict[str, dict[str, dict[int, float]]] = {}
    for (arm, group, seed), own in table.groupby(["arm", "group", "seed"], sort=False):
        course = own.sort_values("update")
        reached = np.concatenate([[0.0], course["cumulative"] / course["cumulative"].iloc[-1]])
        at = int(np.argmax(reached >= 0.5))
        ends = np.concatenate([[0.0], course["update"]])
        inside = (0.5 - reached[at - 1]) / (reached[at] - reached[at - 1])
        half = ends[at - 1] + inside * (ends[at] - ends[at - 1])
        once = reached.max() <= 1 + BEYOND and reached.min() >= -BEYOND
        found.setdefault(arm, {}).setdefault(group, {})[int(seed)] = half if once else np.nan
    return {arm: pd.DataFrame(own) for arm, own in found.items()}


def timing() -> Lines:
    """Yield the update by which each component and each stack has half of its allocation, interpolated in intervals.

    The geometric mean over seeds with the t interval of the logarithms.
    """
    every = halves()
    arms = sorted(every, key=_order)
    yield from head("half of the allocation by update", *map(called, arms))
    for group in (*COMPONENTS, "enc", "cross", "dec"):
        cells = [_updates(every[arm][group]) if group in every[arm] else "–" for arm in arms]
        yield f"| {STACKS.get(group, group)} | {' | '.join(cells)} |"


def _updates(values: pd.Series) -> str:
    """Format the geometric mean of updates over seeds and its interval; a dash if a seed has none."""
    found = paired_t(list(np.log(values)), confidence=CONFIDENCE)
    bounds = found.interval
    shown = f" [{number(np.exp(bounds.low), 0)}, {number(np.exp(bounds.high), 0)}]" if bounds else ""
    return number(float(np.exp(found.mean)), 0) + shown


def chords() -> Lines:
    """Yield the allocation of one training in nats by two schedules of intervals, per component: dense and sparse."""
    one, other = (
        stored(part, "folds").query("set == @SHOWN and seed == 0").groupby(["arm", "component"])["value"].sum()
        for part in ("dense", "own")
    )
    arms = sorted(set(one.index.get_level_values("arm")), key=_order)
    kinds = ("500 single updates", "16 single updates", "difference")
    yield from head("component", *(f"{called(arm)}, {what}" for arm in arms for what in kinds))
    for component in COMPONENTS:
        cells = []
        for arm in arms:
            values = one[arm, component], other[arm, component]
            cells += [number(value, 3, True) for value in (*values, values[0] - values[1])]
        yield f"| {component} | {' | '.join(cells)} |"


_TABLES: Mapping[str, tuple[tuple[str, ...], Callable[[], Lines]]] = {
    "rates": ((), rates),
    "learned": (("own",), learned),
    "closure": (("own",), closure),
    "components": (("own",), components),
    "layers": (("own",), layers),
    "claims": (("own",), claims),
    "likeness": (("own", "depth"), likeness),
    "timing": (("own",), timing),
    "hurting": (("own",), lambda: hurting("own")),
    "ranks": (("own",), lambda: ranks("own")),
    "hurting_dense": (("dense",), lambda: hurting("dense")),
    "ranks_dense": (("dense",), lambda: ranks("dense")),
    "chords": (("dense", "own"), chords),
}
"""Name → the parts whose runs it needs, and its lines."""
TABLES = {
    f"dynamics/{name}": lines
    for name, (needs, lines) in _TABLES.items()
    if all((STORED / f"{part}.csv").exists() for part in needs)
}
