"""Print numbers for the claims that Li 2025 (fusion) makes about its Figures 2 to 8; run it after `isoscope analyse`.

Reads reports/parts/fusion/tables/*.parquet at the root of a project and prints Markdown. Each claim has its metrics:
mean over seeds with the t interval (95 %), and the detectable effect (80 % power).
`--steps`: updates at which to show the metrics (109 218 327 end the three epochs).
Arms of Li 2025: additive (tables N(0, 0.02²)), conv2d_unit, fft_unit (N(0, 1)). conv2d has tables as additive.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pandas as pd

from isoscope.platform.statistics.paired import minimum_detectable_effect, paired_t

FOLDER = Path("reports/parts/fusion/tables")
TABLES = {path.stem: pd.read_parquet(path) for path in FOLDER.glob("*.parquet")}
ARMS = list(dict.fromkeys(TABLES["geometry"]["arm"]))
LAST = int(TABLES["geometry"].query("vectors == 'first'")["layer"].max())
Rows = pd.DataFrame


def mean(values: "pd.Series[float]") -> str:
    """Return the mean over seeds with its interval, or the values of fewer than three seeds."""
    found = values.dropna().tolist()
    if len(found) < 3:
        return ", ".join(f"{one:.3g}" for one in found) or "–"
    test = paired_t(found, confidence=0.95)
    detectable = minimum_detectable_effect(test.n, tests=1, confidence=0.95, power=0.8) * (test.sd or 0.0)
    if test.interval is None:
        return f"{test.mean:.3g} (no spread)"
    return f"{test.mean:.3g} [{test.interval.low:.3g}, {test.interval.high:.3g}], mde {detectable:.2g}"


def line(what: str, values: Rows) -> str:
    """Return a row of Markdown from a `value` for each arm and seed."""
    return f"| {what} | {' | '.join(mean(values[values['arm'] == arm]['value']) for arm in ARMS)} |"


def by_arm(name: str, rows: Callable[[Rows], Rows], value: str, what: str) -> Iterator[str]:
    """Yield a row of Markdown: a metric, a column per arm."""
    table = rows(TABLES[name])
    cells = [mean(table[table["arm"] == arm].groupby("seed")[value].mean()) for arm in ARMS]
    yield f"| {what} | {' | '.join(cells)} |"


def geometry(
    figure: str, what: str, *, layer: int = LAST, when: str = "chosen", vectors: str = "first"
) -> Iterator[str]:
    def rows(table: Rows) -> Rows:
        found = table[(table["figure"] == figure) & (table["layer"] == layer) & (table["vectors"] == vectors)]
        return at(found, when)

    yield from by_arm("geometry", rows, "value", f"{what}, layer {layer}, {when}")


def at(table: Rows, when: str) -> Rows:
    """Return rows of each run's first, chosen or last snapshot, of the random twin, or of a step."""
    if when == "random":
        return table[table["step"].isna()]
    trained = table[table["step"].notna()]
    if when == "chosen":
        return trained[trained["best"]]
    if when in ("first", "last"):
        edge = trained.groupby(["arm", "seed"])["step"].transform("min" if when == "first" else "max")
        return trained[trained["step"] == edge]
    return trained[trained["step"] == int(when)]


def change(figure: str, what: str, *, layer: int = LAST, low: str, high: str) -> Iterator[str]:
    """Yield the change of a metric between two snapshots, paired by seed."""
    table = TABLES["geometry"]
    table = table[(table["figure"] == figure) & (table["layer"] == layer) & (table["vectors"] == "first")]
    before, after = (at(table, when).set_index(["arm", "seed"])["value"] for when in (low, high))
    moved = (after - before).rename("value").reset_index()
    yield line(f"{what}, layer {layer}, {high} − {low}", moved)


def arches(when: str) -> Iterator[str]:
    """Yield the number of layers whose arch differs from noise of the same spectrum (p < .05), of all measured."""
    table = TABLES["geometry"]
    rows = at(table[(table["figure"] == "arch_score_p") & (table["vectors"] == "first")], when).dropna(subset=["value"])
    cells = []
    for arm in ARMS:
        own = rows[rows["arm"] == arm]
        found = [f"{int((one['value'] < 0.05).sum())}/{len(one)}" for _, one in own.groupby("seed")]
        cells.append(", ".join(found) or "–")
    yield f"| layers with an arch (p < .05), by seed, {when} | {' | '.join(cells)} |"


def probes(when: str, layers: str = "all") -> Iterator[str]:
    table = TABLES["probing"]
    own = at(table[(table["task"] == "label") & (table["vectors"] == "first")], when)
    for layer in sorted(own["layer"].unique()) if layers == "all" else [LAST]:
        yield from by_arm(
            "probing", lambda _, layer=layer: own[own["layer"] == layer], "score", f"label probe, layer {layer}, {when}"
        )


def climb() -> Iterator[str]:
    """Yield the Spearman correlation of a probe's score with the layer (from 1), at the chosen epoch."""
    table = at(TABLES["probing"].query("task == 'label' and vectors == 'first' and layer > 0"), "chosen")
    cells = []
    for arm in ARMS:
        runs = table[table["arm"] == arm].groupby("seed")
        cells.append(mean(pd.Series([run["layer"].corr(run["score"], method="spearman") for _, run in runs])))
    yield f"| Spearman of probe score with layer (1 … {LAST}), chosen | {' | '.join(cells)} |"


def clusters(when: str, layer: int) -> Iterator[str]:
    for figure in ("clusters", "clusters_silhouette"):
        yield from geometry(figure, figure.replace("_", " "), layer=layer, when=when)
    for name in ("label", "first_token", "second_token", "length"):
        yield from geometry(
            f"clusters_ami_{name}", f"AMI of clusters with {name.replace('_', ' ')}", layer=layer, when=when
        )


def block(name: str, column: str, kinds: tuple[str, ...], value: str, part: str = "normed") -> Iterator[str]:
    for when in ("first", "chosen"):
        for kind in kinds:
            yield from by_arm(
                name,
                lambda table, kind=kind, when=when: at(table[(table[column] == kind) & (table["part"] == part)], when),
                value,
                f"{name}: {kind}, {part}, {when}",
            )


def chance(name: str, column: str, kind: str, value: str) -> Iterator[str]:
    yield from by_arm(
        name, lambda t: at(t[(t[column] == kind) & (t["part"] == "normed")], "chosen"), value, f"{kind}: chance"
    )


def spectra() -> Iterator[str]:
    for part in ("word", "fused", "normed"):
        for figure in ("flatness", "dead", "dead_permuted"):
            for when in ("first", "chosen"):
                yield from by_arm(
                    "spectrum", lambda t, p=part, w=when: at(t[t["part"] == p], w), figure, f"{figure}, {part}, {when}"
                )


def kernels() -> Iterator[str]:
    if "weights" not in TABLES:
        return
    table = TABLES["weights"]
    keys = ["arm", "seed", "source", "token", "hidden"]
    first, best = (at(table, when).set_index(keys)["weight"] for when in ("first", "chosen"))
    moved = (best - first).pow(2).groupby(["arm", "seed"]).sum() / first.pow(2).groupby(["arm", "seed"]).sum()
    rows = moved.pow(0.5).rename("value").reset_index()
    yield line("kernel: ‖change‖ / ‖start‖, chosen", rows)
    for when in ("first", "chosen"):
        for place in ("centre", "hidden", "tokens"):
            total = at(TABLES["kernel"], when).groupby(["arm", "seed"])[place].sum().rename("value").reset_index()
            yield line(f"kernel: energy on {place}, {when}", total)


def dimensions() -> Iterator[str]:
    table = TABLES["dimensions"]
    for when in ("first", "chosen"):
        rows = at(table, when).groupby(["arm", "seed"])
        spread = rows["mean"].std().rename("value").reset_index()
        yield line(f"sd over dimensions of their means, {when}", spread)
        odd = rows["outlier"].sum().astype(float).rename("value").reset_index()
        yield line(f"outlier dimensions, {when}", odd)


def sections(steps: Sequence[str]) -> Iterator[tuple[str, Iterator[str]]]:
    yield (
        "Figures 2–4: separation over training",
        (
            line
            for when in ("first", *steps, "chosen", "random")
            for line in geometry("linear_separability", "linear separability", when=when)
        ),
    )
    yield (
        "Figures 2–4: shape",
        (
            line
            for part in (
                change("linear_separability", "linear separability", low="chosen", high="last"),
                geometry("effective_rank", "effective rank", when="first"),
                geometry("effective_rank", "effective rank", when="chosen"),
                geometry("effective_rank", "effective rank", when="last"),
                geometry("avg_sim", "mean cosine", when="first"),
                geometry("avg_sim", "mean cosine", when="chosen"),
                geometry("silhouette", "silhouette of the classes", when="chosen"),
                geometry("arch_score", "arch score", when="chosen"),
                geometry("arch_score_null", "arch score of noise", when="chosen"),
                *(arches(when) for when in ("first", *steps[:1], "chosen", "last")),
            )
            for line in part
        ),
    )
    yield (
        "Figure 3: clusters",
        (
            line
            for when, layer in (("first", 1), ("first", LAST), ("chosen", 1), ("chosen", LAST))
            for line in clusters(when, layer)
        ),
    )
    yield (
        "Figures 5 and 7: the embedding space",
        (
            line
            for part in (
                block("cosines", "pairs", ("all", "same position", "same word", "neither"), "cosine"),
                block("neighbours", "neighbours", ("same word", "same position"), "rate"),
                chance("neighbours", "neighbours", "same word", "chance"),
                chance("neighbours", "neighbours", "same position", "chance"),
                block("decoding", "read", ("word", "position"), "rate"),
                chance("decoding", "read", "word", "control"),
                chance("decoding", "read", "position", "control"),
            )
            for line in part
        ),
    )
    yield (
        "Figure 6: probes",
        (
            line
            for part in (probes("first"), probes("chosen"), probes("last"), probes("random"), climb())
            for line in part
        ),
    )
    yield "Figure 8 and the hypotheses", (line for part in (dimensions(), spectra(), kernels()) for line in part)
    yield (
        "Gradients of the embedding block: variance / squared norm",
        (
            line
            for part in ("word", "position", "fusion")
            for line in by_arm("gradients", lambda t, p=part: at(t[t["part"] == p], "first"), "noise", f"{part}, first")
        ),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", nargs="*", default=[], metavar="UPDATE")
    for title, lines in sections(parser.parse_args().steps):
        print(f"\n### {title}\n\n| figure | {' | '.join(ARMS)} |\n|---|{'---|' * len(ARMS)}")
        for line in lines:
            print(line.replace("nan", "–"))
    base = TABLES["baselines"].query("task == 'label'").groupby(["baseline", "arm"])["score"].agg(["mean", "std"])
    print("\n### Baselines for the label (no encoder)\n")
    print(base.round(3).to_string())
    n = TABLES["geometry"].query("vectors == 'first'")["n"].max()
    chance = TABLES["probing"].query("task == 'label'")["chance"].max()
    seeds = sorted(TABLES["geometry"]["seed"].unique())
    print(f"\nn = {n} sentences, seeds {seeds}, chance of the label {chance:.3f}")


if __name__ == "__main__":
    main()
