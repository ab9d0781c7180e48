"""Does the allocation of a run agree with what its groups and layers do? Run it at the root of a project.

`python docs/results/dynamics_inside.py damage geometry models/dynamics/*/seed-*` reads finished runs with an allocation
and with kept snapshots, and writes into docs/results/dynamics/, or into another folder (`--to`). Rows of the runs given
before are replaced:

damage.csv     how much the validation loss rises without a group: digest, arm, seed, group, component, parameters,
               allocated (sum until the chosen weights, training set, nats; negative helps), kind (zero: set to 0;
               start: set to the values before training), loss, damage. See `isoscope.training.ablation`.
geometry.csv   of every snapshot: digest, arm, seed, update, stack, layer (0: after the embedding block), measure,
               value, n (tokens). `allocated` is the allocation of the layer's parameters until then.

Then it prints what agrees (dynamics_agreement.py), of all runs in the files; without folders it only does this.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from accelerate import Accelerator
from dynamics_agreement import ALLOCATED, damage_ranks, geometry_layers
from safetensors.torch import load_model
from torch import Tensor

from isoscope.base.errors import InputError
from isoscope.base.paths import processed
from isoscope.base.registry import OBJECTIVES
from isoscope.data.batches import drawn_rows
from isoscope.geometry import anisotropy, avg_sim, effective_rank
from isoscope.geometry.moments import spectrum
from isoscope.objectives import Objective, Task
from isoscope.platform.outputs import Output, epochs_by_update, read_output
from isoscope.studies.dynamics.allocated_runs import BLOCK, OUTSIDE, AllocatedRun, read_run
from isoscope.training.ablation import damages
from isoscope.training.evaluation import evaluate, to_device
from isoscope.training.ranks import Ranks

FOLDER = Path("docs/results/dynamics")
SENTENCES = 200
"""Validation sentences whose tokens are measured, the same in every run and at every update."""
STACKS = (
    ("enc", "encoder_hidden_states", ""),
    ("dec", "decoder_hidden_states", "decoder_"),
    ("", "hidden_states", ""),
)
"""Stack, its layers in a model's output, and the prefix of its inputs; a model of one stack has only the last."""
MEASURES: Mapping[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "a_1": lambda points, _: float(anisotropy(points, 1)[0]),
    "effective_rank": lambda points, _: effective_rank(spectrum(points)),
    "avg_sim": avg_sim,
}
CHOSEN_ON = "train"
"""Set of the allocation; the validation set judges."""
Rows = Iterator[dict[str, Any]]


class Material(NamedTuple):
    """A run with its allocation, its task as an objective, and the folder of its chosen checkpoint."""

    output: Output
    allocation: AllocatedRun
    objective: Objective
    folder: Path

    @property
    def who(self) -> dict[str, Any]:
        return {"digest": self.output.run.digest[:12], "arm": self.output.run.arm, "seed": self.output.run.seed}

    def model(self, folder: Path) -> Any:
        """Return the model with the weights in `folder`."""
        model = self.objective.build(self.output.params["model"], None)
        load_model(model, folder / "model.safetensors")
        return model.eval()

    def loss(self, model: Any) -> float:
        """Return the loss on the validation split."""
        ranks = Ranks(Accelerator(cpu=True))
        scored = evaluate(model, self.objective, "validation", ranks)
        return scored.tally.metrics()["loss"]

    @property
    def snapshots(self) -> dict[int, Path]:
        """Return update → folder, in order, the weights before training first."""
        found = {int(one.name.rpartition("-")[2]): one for one in (self.output.folder / "snapshots").glob("step-*")}
        if 0 not in found:
            raise InputError(
                f"{self.output.folder}: no snapshot of update 0; train with training.snapshots.steps=powers"
            )
        return dict(sorted(found.items()))


def by_block(run: AllocatedRun, until: float) -> pd.DataFrame:
    """Return the allocation up to an update by stack × layer × component, without the word table.

    Columns group (`enc.0.W1`, outside the layers `enc.pos`, as in `isoscope.training.ablation`), component, value.
    """
    table = run.allocation[(run.allocation["set"] == CHOSEN_ON) & (run.allocation["component"] != "emb")]
    found = table[table["update"] <= until].groupby(BLOCK, sort=False)["value"].sum().reset_index()
    layer = found["layer"].map(lambda one: "" if one == OUTSIDE else f"{one}.")
    return found.assign(group=found["stack"] + "." + layer + found["component"])


def damage(run: Material) -> Rows:
    """Yield the rows of damage.csv of the chosen checkpoint, with the allocation until then; without the word table."""
    model = run.model(run.folder)
    start = dict(run.model(run.snapshots[0]).named_parameters())
    ends = {epoch: update for update, epoch in epochs_by_update(run.output.folder).items()}
    known = by_block(run.allocation, ends[int(run.folder.name.removeprefix("epoch-"))]).set_index("group")
    for one in damages(model, start, lambda: run.loss(model)):
        if one.group in known.index:
            block = known.loc[one.group]
            yield {"group": one.group, "component": block["component"], "parameters": one.parameters} | {
                ALLOCATED: block["value"], "kind": one.kind, "loss": one.loss, "damage": one.damage,
            }  # fmt: skip


@torch.no_grad()
def tokens(model: Any, run: Material) -> dict[tuple[str, int], tuple[np.ndarray, np.ndarray]]:
    """Return stack and layer → the tokens' vectors `[n, d]` and their sentences; special tokens are left out."""
    objective: Any = run.objective
    special = torch.tensor([objective.texts.specials.begin, objective.texts.specials.end])
    found: dict[tuple[str, int], list[tuple[Tensor, Tensor]]] = {}
    rows = drawn_rows(objective.size("validation"), SENTENCES)
    for batch in objective.plan("validation", None, rows):
        inputs = to_device(objective.batch("validation", batch, None), torch.device("cpu"))
        inputs.pop("labels")
        output = model(**inputs, output_hidden_states=True)
        for stack, field, prefix in STACKS:
            for layer, states in enumerate(getattr(output, field, None) or ()):
                shown = inputs[f"{prefix}attention_mask"].bool() & ~torch.isin(inputs[f"{prefix}input_ids"], special)
                of = torch.from_numpy(batch)[:, None].expand_as(shown)[shown]
                name = stack or ("dec" if model.config.is_decoder else "enc")
                found.setdefault((name, layer), []).append((states[shown], of))
    return {
        place: (torch.cat([one for one, _ in parts]).numpy(), torch.cat([of for _, of in parts]).numpy())
        for place, parts in found.items()
    }


def by_layer(run: AllocatedRun) -> pd.DataFrame:
    """Return the allocation until each interval's end, a column per stack and layer of hidden states; 0 at update 0.

    Cross-attention counts to its layer of the decoder.
    """
    own = run.allocation[(run.allocation["set"] == CHOSEN_ON) & (run.allocation["layer"] != OUTSIDE)]
    own = own.assign(stack=own["stack"].replace("cross", "dec"), layer=own["layer"] + 1)
    sums = own.pivot_table(index="update", columns=["stack", "layer"], values="value", aggfunc="sum").cumsum()
    sums.loc[0] = 0.0
    return sums.sort_index()


def geometry(run: Material) -> Rows:
    """Yield the rows of geometry.csv; between the ends of two intervals the allocation is interpolated."""
    sums = by_layer(run.allocation)
    for update, folder in run.snapshots.items():
        for (stack, layer), (points, of) in tokens(run.model(folder), run).items():
            about = {"update": update, "stack": stack, "layer": layer, "n": len(points)}
            yield from (about | {"measure": name, "value": one(points, of)} for name, one in MEASURES.items())
            if layer:
                value = np.interp(update, sums.index, sums[stack, layer])
                yield about | {"measure": ALLOCATED, "value": value}


def material(run: Path) -> Material:
    """Read the run in the folder `run`; its task is prepared in the project at the current folder."""
    output = read_output(run)
    (folder,) = (run / "checkpoints").iterdir()
    data = processed(output.run.task)
    asked = dict(output.params["objective"])
    manifest = json.loads((data / "manifest.json").read_text("utf-8"))
    task = Task(data, manifest, folder, output.params["model"]["max_length"], 1.0, 64, 1, 0)
    objective = OBJECTIVES[asked.pop("kind")].make(asked, task=task)
    return Material(output, read_run(output.run.arm, output.run.seed, output), objective, folder)


PARTS = {"damage": (damage, damage_ranks), "geometry": (geometry, geometry_layers)}


def store(file: Path, rows: list[dict[str, Any]], digest: str) -> None:
    """Write the rows of a run; its earlier rows and those of other runs of this arm and seed go."""
    new = pd.DataFrame(rows)
    if file.exists():
        old = pd.read_csv(file, dtype={"digest": str})
        other = (old["arm"] != new["arm"].iloc[0]) | (old["seed"] != new["seed"].iloc[0])
        new = pd.concat([old[other], new])
    new.to_csv(file, index=False, lineterminator="\n", float_format="%.9g")
    print(f"{file}: {digest}, {len(rows)} rows", flush=True)


def main() -> None:
    """Measure the given runs, then compare all that are stored."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="+", help="damage, geometry, and folders of finished runs")
    parser.add_argument("--to", type=Path, default=FOLDER, help=f"folder of the files (default: {FOLDER}, of the page)")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    arguments.to.mkdir(parents=True, exist_ok=True)
    names = [one for one in arguments.what if one in PARTS]
    for folder in [one for one in arguments.what if one not in PARTS]:
        run = material(Path(folder))
        for name in names:
            store(arguments.to / f"{name}.csv", [run.who | one for one in PARTS[name][0](run)], run.who["digest"])
    for name in names:
        if not (file := arguments.to / f"{name}.csv").is_file():
            raise InputError(f"{file}: no such file; give folders of finished runs with an allocation")
        print(PARTS[name][1](pd.read_csv(file)).to_string(index=False))


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
