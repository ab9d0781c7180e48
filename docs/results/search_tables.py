"""Print the tables of search.md as Markdown: `python docs/results/search_tables.py FOLDER`.

FOLDER: the project of the search. Reads its `reports/search/` and `reports/search-confirmed.json`.
"""

import json
import sys
from pathlib import Path

import pandas as pd

SHOWN = ("fusion", "model.fusion.kernel_size", "model.fusion.normalisation", "penalty", "penalty.weight")


def choices(trial: pd.Series) -> str:
    """Return a trial's choices, separated by commas."""
    said = [f"{trial[f'param/{name}']:.3g}" if name == "penalty.weight" else str(trial[f"param/{name}"])
            for name in SHOWN if f"param/{name}" in trial and pd.notna(trial[f"param/{name}"])]  # fmt: skip
    return ", ".join(said)


def main() -> None:
    """Print the Pareto front, the results by fusion and by penalty, and the confirmation."""
    reports = Path(sys.argv[1]) / "reports"
    study = json.loads((reports / "search/study.json").read_text("utf-8"))
    trials = pd.read_parquet(reports / "search/trials.parquet")
    accuracy, a_1 = (f"objective/{name}" for name in study["objectives"])
    done = trials[trials["state"] == "COMPLETE"]
    apart = done["digests"].map(lambda digests: digests[0]).nunique()
    hours = done["seconds"].sum() / 3600
    print(
        f"{len(trials)} trials, {apart} different runs, {(~done['feasible']).sum()} infeasible; {hours:.2f} h of work."
    )
    print(f"Default: {study['default']}; suggested: trial {study['knee']}.\n")
    print("| trial | choices | accuracy | a₁ |\n|---:|---|---:|---:|")
    for _, trial in done[done["on_front"]].sort_values(a_1).iterrows():
        mark = " (suggested)" if trial["number"] == study["knee"] else ""
        print(f"| {trial['number']}{mark} | {choices(trial)} | {trial[accuracy]:.3f} | {trial[a_1]:.3f} |")
    once = done[~done["digests"].map(lambda digests: digests[0]).duplicated()]
    for name in ("param/fusion", "param/penalty"):
        print(f"\n| {name.removeprefix('param/')} | runs | feasible | accuracy, best | a₁, least feasible |")
        print("|---|---:|---:|---:|---:|")
        for value, part in once.groupby(name):
            fit = part[part["feasible"]]
            print(f"| {value} | {len(part)} | {len(fit)} | {part[accuracy].max():.3f} | {fit[a_1].min():.3f} |")
    file = reports / "search-confirmed.json"
    if file.exists():
        found = json.loads(file.read_text("utf-8"))
        print(f"\nTrial {found['trial']}, fresh seeds {found['seeds']}:\n")
        print("| figure | in the search | default | chosen | difference | p |\n|---|---:|---:|---:|---:|---:|")
        for row in found["rows"]:
            believed, p = found["believed"].get(row["figure"]), row["p"]
            means = f"{row['mean_reference']:.4f} | {row['mean']:.4f}"
            interval = f"{row['difference']:+.4f} [{row['low']:+.4f}, {row['high']:+.4f}]"
            print(f"| `{row['figure']}` | {believed:.4f} | {means} | {interval} | {p:.3f} |")


if __name__ == "__main__":
    main()
