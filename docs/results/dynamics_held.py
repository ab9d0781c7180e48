"""Train runs of the study `dynamics` again with groups of parameters held; run it at the root of a checkout.

Needs finished runs with an allocation: `isoscope profile dynamics`, `isoscope prepare multi30k`, `isoscope train
dynamics`. For each run the first tenth of training chooses sets of groups of equal size
(`isoscope.studies.dynamics.held_groups`): the set that helps most, the set that helps least, random sets. Each is
held from there on, in a run of its own.

`python docs/results/dynamics_held.py models/dynamics/*/seed-*` adds a row per run to docs/results/dynamics/held.csv
(`--to`: in another folder):

base                         digest of the run that was given
digest, commit, arm, seed    of the run; choice `none` is the run that was given
choice, after                which set is held, and the last update before
parameters, allocated        of the held groups: their number, and their allocation until then (training set, nats)
loss                         last validation loss
same_start                   whether the logged losses until `after` are those of the given run to the last digit;
                             empty if none was logged
groups                       the held groups

Stored runs are not trained again, and stopped runs resume: stop and start it at any time. At the end it prints
the differences between choices. `--compare` only prints them.
"""

import argparse
import json
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from collect import commit_of, told
from dynamics_agreement import held_differences

from isoscope.base.errors import InputError
from isoscope.platform.config.load import Configuration
from isoscope.platform.config.tree import NOT_IN_DIGEST, flatten
from isoscope.platform.outputs import Output, read_output
from isoscope.platform.runs.restored import read_metrics
from isoscope.studies.dynamics.allocated_runs import read_run
from isoscope.studies.dynamics.held_groups import Early, HeldSet, early, held_sets

FOLDER, FILE = Path("docs/results/dynamics"), "held.csv"
COLUMNS = [
    *("base", "digest", "commit", "arm", "seed", "choice", "after", "parameters", "allocated", "loss", "same_start"),
    "groups",
]
WITHOUT = ("training.allocation=null", "training.snapshots={steps: none, epochs: false}")
"""What a held run leaves out: it changes no weight."""
FREE = ("training.allocation", "training.snapshots", "training.hold")


def differing(output: Output, overrides: Sequence[str]) -> list[str]:
    """Return the numbers of a run that a training with `overrides` would not have."""
    tree = Configuration(Path(), overrides).cell(output.run.study, output.run.arm).tree
    now, then = flatten({name: tree[name] for name in output.params}), flatten(output.params)
    names = [name for name in {**then, **now} if name not in NOT_IN_DIGEST and not name.startswith(FREE)]
    return [name for name in names if now.get(name) != then.get(name)]


def held(output: Output, after: int, one: HeldSet, overrides: Sequence[str]) -> Path:
    """Train a run with a set of groups held; return its folder."""
    run = output.run
    hold = f"training.hold={{after: {after}, groups: [{', '.join(one.groups)}]}}"
    words = [word for name in (*overrides, *WITHOUT, hold) for word in ("-S", name)]
    command = ["isoscope", "train", run.study, run.arm, "--seed", str(run.seed), *words, "--json"]
    said = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout
    return Path(json.loads(said)["folder"])


def losses(folder: Path, name: str) -> dict[int, float]:
    """Return update → value of a metric."""
    return {int(point["step"]): point["value"] for point in read_metrics(folder) if point["name"] == name}


def row(output: Output, digest: str, folder: Path, known: Early, one: HeldSet) -> dict[str, Any]:
    """Return the row of a run."""
    steps, given = (losses(where, "step/loss") for where in (folder, output.folder))
    validation = losses(folder, "validation/loss")
    same = [steps.get(step) == value for step, value in given.items() if step <= known.after]
    found = {"base": output.run.digest[:12], "digest": digest[:12], "commit": commit_of(digest)[:7]}
    found |= {"arm": output.run.arm, "seed": output.run.seed}
    found |= {"choice": one.choice, "after": known.after, "parameters": one.parameters, "allocated": one.allocated}
    return found | {
        "loss": validation[max(validation)],
        "same_start": all(same) if same else "",
        "groups": " ".join(one.groups),
    }


def stored(file: Path) -> pd.DataFrame:
    """Return the rows of a file; none if it does not exist."""
    kinds = {"base": str, "digest": str, "commit": str}
    return pd.read_csv(file, dtype=kinds, keep_default_na=False) if file.exists() else pd.DataFrame(columns=COLUMNS)


def of_base(table: pd.DataFrame, output: Output) -> pd.DataFrame:
    """Return the rows without those that belong to an earlier training of this arm and seed."""
    same = (table["arm"] == output.run.arm) & (table["seed"] == output.run.seed)
    return table[~same | (table["base"] == output.run.digest[:12])]


def trained(output: Output, random: int, overrides: Sequence[str], done: set[str]) -> Iterator[dict[str, Any]]:
    """Yield the row of a run, and of each set that is held, except those of the choices `done`."""
    known = early(read_run(output.run.arm, output.run.seed, output))
    nothing = HeldSet("none", (), 0, 0.0)
    for one in (nothing, *held_sets(known.blocks, random=random, seed=output.run.seed)):
        if one.choice in done:
            continue
        folder = held(output, known.after, one, overrides) if one.groups else output.folder
        digest = folder.absolute().parent.name if one.groups else output.run.digest
        yield row(output, digest, folder, known, one)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", type=Path, help="folders of finished runs with an allocation")
    parser.add_argument("--random", type=int, default=3, help="number of random sets of a run (default: 3)")
    parser.add_argument("-S", dest="overrides", action="append", default=[], help="as in the training of the runs")
    parser.add_argument("--compare", action="store_true", help="train nothing")
    parser.add_argument("--to", type=Path, default=FOLDER, help=f"folder of {FILE} (default: {FOLDER}, of the page)")
    arguments = parser.parse_args()
    file = arguments.to / FILE
    if not file.exists() and (arguments.compare or not arguments.runs):
        raise InputError(f"{file}: no such file; give folders of finished runs with an allocation")
    file.parent.mkdir(parents=True, exist_ok=True)
    for folder in [] if arguments.compare else arguments.runs:
        output = read_output(folder)
        if names := differing(output, arguments.overrides):
            raise SystemExit(f"{folder}: trained with other {', '.join(names)}; repeat its settings with -S")
        table = stored(file)
        of_run = table[table["base"] == output.run.digest[:12]]
        for one in trained(output, arguments.random, arguments.overrides, set(of_run["choice"])):
            new = pd.DataFrame([one], columns=COLUMNS)
            table = of_base(stored(file), output)
            (pd.concat([table, new]) if len(table) else new).to_csv(file, index=False, lineterminator="\n")
            print(f"{one['arm']} seed {one['seed']}, {one['choice']} held: {one['loss']:.4f}", flush=True)
    print(held_differences(stored(file)).to_string(index=False))


if __name__ == "__main__":
    told(main)
