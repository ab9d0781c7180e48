"""Print post-hoc isotropy of runs that did not log it; run it at the root of the project.

For each run of the study `isotropy`: vectors of the test split by the last checkpoint, untouched, without their first
directions, and whitened (`training.observers.posthoc`). Prints Markdown: means over seeds with t intervals (95 %).
"""

import argparse
from pathlib import Path

import pandas as pd
import torch
from checkpoints import chosen

from isoscope.models.encoder import load_classifier
from isoscope.objectives import Place
from isoscope.platform.statistics.paired import paired_t
from isoscope.training.anisotropy import posthoc_figures

FIGURES = ("a_1", "a_1_centred", "ridge_accuracy", "ridge_matthews", "neighbour_accuracy", "neighbour_matthews")


def figures(run: Path) -> dict[str, float]:
    """Return the metrics of a run."""
    one = chosen(run)
    watch = one.output.params["training"]["watch"]
    place = Place(watch["layer"], watch["vectors"])
    scored = one.on_test(load_classifier(one.folder), place)
    return posthoc_figures(scored.points[place], one.objective.splits["test"].labels)


def main() -> None:
    """Print a row per arm and map."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    torch.set_num_threads(parser.parse_args().threads)
    rows = []
    for run in sorted(Path("models/isotropy").glob("*/seed-*")):
        for name, value in figures(run).items():
            laid, _, figure = name.partition("/")
            rows.append((run.parts[-2], laid, figure, value))
    table = pd.DataFrame(rows, columns=["arm", "map", "figure", "value"])
    print(f"chance {table[table['map'] == 'chance']['value'].mean():.3f}\n")
    print(f"| arm | map | {' | '.join(FIGURES)} |\n|---|---|{'---|' * len(FIGURES)}")
    for (arm, laid), own in table[table["map"] != "chance"].groupby(["arm", "map"], sort=False):
        cells = []
        for figure in FIGURES:
            values = own[own["figure"] == figure]["value"].tolist()
            test = paired_t(values, confidence=0.95)
            interval = f" [{test.interval.low:.3f}, {test.interval.high:.3f}]" if test.interval else ""
            cells.append(f"{test.mean:.3f}{interval}")
        print(f"| {arm} | {laid} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
