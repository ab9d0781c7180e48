"""Print the tables of isotropy.md as Markdown; run it at the root of a project, after `isoscope analyse isotropy`.

Reads reports/parts/isotropy/tables and the runs. A value is the mean of a run's last 30 % of updates or evaluations,
then the mean over seeds with the t interval (95 %). Differences are paired by seed; p by Holm over the arms.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from isoscope.platform.statistics.families import by_chance, families
from isoscope.platform.statistics.paired import paired_t
from isoscope.studies.curves import compared, curves

CHART = Path("reports/parts/isotropy/tables")
SHOWN = {
    "Task, validation": ["validation/accuracy", "validation/f1", "validation/matthews", "step/loss"],
    "Batches of 64, dropout on": [f"step/a_{k}{kind}" for kind in ("", "_centred") for k in (1, 2, 3)],
    "The validation sample, dropout off": [
        f"validation/{figure}"
        for figure in (
            *("a_1", "a_1_centred", "a_1_within", "a_1_clustered", "between_share"),
            *("normal_cosine", "normal_cosine_shuffled", "bar_mean", "bar_longest", "bar_evenness", "radius"),
        )
    ],
    "The penalty": ["step/penalty", "step/penalty_gradient_norm"],
}


def interval(values: list[float]) -> str:
    """Return the mean and its t interval."""
    test = paired_t(values, confidence=0.95)
    return f"{test.mean:.3g}" + (f" [{test.interval.low:.3g}, {test.interval.high:.3g}]" if test.interval else "")


def arms_by_figure(averages: pd.DataFrame, differences: pd.DataFrame) -> Iterator[str]:
    """Yield a table per group: each arm's mean and its difference from the first arm, bold if Holm's p is below .05."""
    arms = list(dict.fromkeys(averages["arm"]))
    found = differences.set_index(["figure", "arm"])
    for title, figures in SHOWN.items():
        yield f"\n**{title}**\n\n| | {' | '.join(arms)} |\n|---|{'---|' * len(arms)}"
        for figure in figures:
            cells = []
            for arm in arms:
                values = averages[(averages["arm"] == arm) & (averages["figure"] == figure)]["value"].tolist()
                cell = interval(values) if values else "–"
                if (figure, arm) in found.index:
                    row = found.loc[(figure, arm)]
                    mark = "**" if row["p_holm"] < 0.05 else ""
                    cell += f"; {mark}{row['difference']:+.3g} [{row['low']:+.3g}, {row['high']:+.3g}]{mark}"
                cells.append(cell)
            yield f"| `{figure}` | {' | '.join(cells)} |"


def questions(runs: list[Path]) -> Iterator[str]:
    """Yield the number of bars kept at each update, and their share of H's maximum."""
    points = curves(runs)
    for arm, rows in points.groupby("arm", sort=False):
        kept = rows[rows["metric"].str.startswith("step/kept/")]["value"].to_numpy()
        if not len(kept):
            continue
        norm, even = (
            rows[rows["metric"].str.startswith(f"step/{name}")]["value"].to_numpy()
            for name in ("penalty_gradient_norm", "normalised/")
        )
        counts = {int(k): float((kept == k).mean()) for k in np.unique(kept)} if kept.max() < 12 else {}
        yield (
            f"\n{arm}: kept bars per class and update: median {np.median(kept):.0f}, 90 % in "
            f"{np.quantile(kept, 0.05):.0f} to {np.quantile(kept, 0.95):.0f}; "
            + ", ".join(f"{k}: {share:.0%}" for k, share in counts.items())
            + f". H / ln k: median {np.median(even):.4f}, least {even.min():.4f}. Gradient norm: first update "
            f"{norm[0]:.4f}, median {np.median(norm):.4f}, largest {norm.max():.4f}."
        )
    for metric in ("a_1_centred", "a_1_within", "between_share", "normal_cosine", "normal_cosine_shuffled"):
        rows = points[points["metric"] == f"validation/{metric}"]
        ends = [
            rows.loc[rows.groupby(["arm", "seed"])["step"].agg(which), ["arm", "value"]]
            for which in ("idxmin", "idxmax")
        ]
        shown = (one.groupby("arm", sort=False)["value"].mean() for one in ends)
        yield f"\n`{metric}` before → after: " + ", ".join(
            f"{arm} {a:.3f} → {b:.3f}" for arm, a, b in pd.concat(shown, axis=1).itertuples()
        )


def main() -> None:
    """Print the tables."""
    averages = pd.read_parquet(CHART / "averages.parquet")
    figures = [figure for group in SHOWN.values() for figure in group]
    against = dict.fromkeys(averages["arm"], averages["arm"].iloc[0])
    with families() as found:
        differences = compared(averages, figures, against=against, confidence=0.95, power=0.8)
    below = int((differences["p_holm"] < 0.05).sum())
    chance = by_chance(len(found), confidence=0.95)
    print(f"{len(differences)} differences in {len(found)} families, {below} with p by Holm below .05")
    print(f"by chance alone: {chance:.1f}")
    print("\n".join(arms_by_figure(averages, differences)))
    runs = sorted(Path("models/isotropy").glob("*/seed-*"), key=lambda run: list(averages["arm"]).index(run.parts[-2]))
    print("\n".join(questions(runs)))
    for metric, arms in json.loads(Path("reports/parts/isotropy/metrics.json").read_text("utf-8")).items():
        print(
            f"\ntest {metric}: "
            + ", ".join(f"{arm} {of['mean']:.3f} ± {of['sd'] or 0:.3f}" for arm, of in arms.items())
        )


if __name__ == "__main__":
    main()
