"""Does the allocation of a run agree with what its groups and layers do? Run it at the root of a project.

`python docs/results/dynamics_inside.py damage geometry models/dynamics/*/seed-*` (or .isoscope/runs/*/output) reads
finished runs with an allocation and with kept snapshots, and writes into docs/results/dynamics/, without the rows of
the runs given before:

damage.csv     how much the validation loss rises without a group: digest, arm, seed, group, component, parameters,
               allocated (sum until the chosen weights, training set, nats; negative helps), kind (zero: set to 0;
               start: set to the values before training), loss, damage. See `isoscope.training.ablation`.
geometry.csv   of every snapshot: digest, arm, seed, update, stack, layer (0: after the embedding block), measure,
               value, n (tokens). `allocated` is the allocation of the layer's parameters until then.

Then it prints, and stores in damage_ranks.csv, geometry_lags.csv and geometry_layers.csv, what agrees. `--compare` only
does this.
"""

import argparse
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from checkpoints import Chosen, chosen
from safetensors.torch import load_model
from torch import Tensor

from isoscope.data.batches import drawn_rows
from isoscope.geometry import anisotropy, avg_sim, effective_rank
from isoscope.geometry.moments import spectrum
from isoscope.outputs import Output
from isoscope.runs.restored import read_metrics
from isoscope.statistics.lagged_correlation import lagged_correlation
from isoscope.statistics.paired import in_family, paired_t
from isoscope.statistics.rank_agreement import rank_correlation
from isoscope.studies.dynamics.allocated_runs import OUTSIDE, AllocatedRun, read_run
from isoscope.studies.dynamics.held_groups import CHOSEN_ON, by_block
from isoscope.training.ablation import damages
from isoscope.training.evaluation import to_device

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
ALLOCATED = "allocated"
Rows = Iterator[dict[str, Any]]


class Material(NamedTuple):
    """A run with its allocation, its task, and its folder."""

    output: Output
    allocation: AllocatedRun
    task: Chosen

    @property
    def who(self) -> dict[str, Any]:
        return {"digest": self.output.run.digest[:12], "arm": self.output.run.arm, "seed": self.output.run.seed}

    @property
    def chosen_update(self) -> int:
        """The last update of the epoch whose weights were chosen."""
        points = read_metrics(self.output.folder)
        epoch = next(one["value"] for one in points if one["name"] == "training/best_epoch")
        return next(
            int(one["step"]) for one in points if (one["name"], one.get("epoch")) == ("validation/loss", int(epoch))
        )

    def model(self, folder: Path) -> Any:
        """Return the model with the weights in `folder`."""
        model = self.task.objective.build(self.output.params["model"], None)
        load_model(model, folder / "model.safetensors")
        return model.eval()

    @property
    def snapshots(self) -> dict[int, Path]:
        """Return update → folder, in order, the weights before training first."""
        found = {int(one.name.rpartition("-")[2]): one for one in (self.output.folder / "snapshots").glob("step-*")}
        if 0 not in found:
            raise SystemExit(
                f"{self.output.folder}: no snapshot of update 0; train with training.snapshots.steps=powers"
            )
        return dict(sorted(found.items()))


def damage(run: Material) -> Rows:
    """Yield the rows of damage.csv of the chosen checkpoint, with the allocation until then; without the word table."""
    model = run.model(run.task.folder)
    start = dict(run.model(run.snapshots[0]).named_parameters())
    known = by_block(run.allocation, run.chosen_update).set_index("group")
    for one in damages(model, start, lambda: run.task.scored(model, "validation").tally.metrics()["loss"]):
        if one.group in known.index:
            block = known.loc[one.group]
            yield {"group": one.group, "component": block["component"], "parameters": one.parameters} | {
                ALLOCATED: block["value"], "kind": one.kind, "loss": one.loss, "damage": one.damage,
            }  # fmt: skip


def damage_ranks(table: pd.DataFrame) -> pd.DataFrame:
    """Return Spearman's rho of help (−allocation) and damage over groups, per run and kind, with permutation p.

    `within`: with ranks taken relative to the component, so that sizes and kinds of parameters do not count.
    """
    rows = []
    for (arm, seed, kind), own in table.groupby(["arm", "seed", "kind"], sort=False):
        values = -own[ALLOCATED].to_numpy(), own["damage"].to_numpy()
        every, within = rank_correlation(*values), rank_correlation(*values, strata=own["component"].to_list())
        about = {"arm": arm, "seed": seed, "kind": kind, "groups": every.n}
        rows.append(about | {"rho": every.rho, "p": every.p, "rho_within": within.rho, "p_within": within.p})
    return pd.DataFrame(rows)


@torch.no_grad()
def tokens(model: Any, run: Material) -> dict[tuple[str, int], tuple[np.ndarray, np.ndarray]]:
    """Return stack and layer → the tokens' vectors `[n, d]` and their sentences; special tokens are left out."""
    objective: Any = run.task.objective
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


def geometry_lags(table: pd.DataFrame) -> pd.DataFrame:
    """Return how changes of a layer's geometry go with its help (−allocation) between snapshots, per run and layer.

    `course`: `own`, or `relative` to the mean of the stack's other layers, without what all layers have in common. A
    positive lag: the geometry changes later, in snapshots. p: `isoscope.statistics.lagged_correlation`.
    """
    rows = []
    for (arm, seed, stack), own in table[table["layer"] > 0].groupby(["arm", "seed", "stack"], sort=False):
        curves = own.pivot_table(index="update", columns=["measure", "layer"], values="value").dropna()
        for measure in MEASURES:
            for layer in curves[measure]:
                others = [one for one in curves[measure] if one != layer]
                for course in ("own", "relative") if others else ("own",):
                    help_, shape = (
                        curves[name][layer] - (curves[name][others].mean(axis=1) if course == "relative" else 0.0)
                        for name in (ALLOCATED, measure)
                    )
                    if (found := lagged_correlation(-help_.to_numpy(), shape.to_numpy())) is not None:
                        about = {"arm": arm, "seed": seed, "stack": stack, "layer": layer, "measure": measure}
                        rows.append(about | {"course": course, "lag": found.lag, "r": found.r, "p": found.p})
                        rows[-1] |= {"r_at_0": found.by_lag[0], "changes": found.changes}
    return pd.DataFrame(rows)


def geometry_layers(table: pd.DataFrame, confidence: float = 0.95) -> pd.DataFrame:
    """Return whether a layer's geometry changes when this layer helps, rather than when any layer of its stack does.

    Pearson's r of the changes of help and geometry of a layer, minus the mean r of its help with the geometry of the
    stack's other layers, averaged over layers. Curves of a training change much at first and little later, whatever
    they are: this makes both r, and cancels in their difference. Mean over seeds with the t interval, p by Holm over
    the rows of an arm; `lag` in snapshots, fixed in advance (see `geometry_lags`).
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
    found = []
    for arm, own in pd.DataFrame(rows).groupby("arm", sort=False) if rows else ():
        groups = list(own.groupby(["stack", "measure", "lag"], sort=False)["difference"])
        tests = [paired_t(values.tolist(), confidence=confidence) for _, values in groups]
        family = in_family(tests, confidence=confidence, power=0.8)
        for (key, _), test, (p, detectable) in zip(groups, tests, family, strict=True):
            low, high = test.interval or (None, None)
            about = {"arm": arm} | dict(zip(("stack", "measure", "lag"), key, strict=True)) | {"n": test.n}
            about |= {"difference": test.mean, "low": low, "high": high}
            found.append(about | {"p_holm": p, "detectable": detectable})
    return pd.DataFrame(found)


PARTS = {
    "damage": (damage, {"damage_ranks": damage_ranks}),
    "geometry": (geometry, {"geometry_lags": geometry_lags, "geometry_layers": geometry_layers}),
}


def store(name: str, rows: list[dict[str, Any]], digest: str) -> None:
    """Write the rows of a run; its earlier rows and those of other runs of this arm and seed go."""
    file, new = FOLDER / f"{name}.csv", pd.DataFrame(rows)
    if file.exists():
        old = pd.read_csv(file, dtype={"digest": str})
        other = (old["arm"] != new["arm"].iloc[0]) | (old["seed"] != new["seed"].iloc[0])
        new = pd.concat([old[other], new])
    new.to_csv(file, index=False, lineterminator="\n", float_format="%.9g")
    print(f"{file}: {digest}, {len(rows)} rows", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="+", help="damage, geometry, and folders of finished runs")
    parser.add_argument("--compare", action="store_true", help="measure nothing")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    FOLDER.mkdir(parents=True, exist_ok=True)
    names = [one for one in arguments.what if one in PARTS]
    folders = [Path(one) for one in arguments.what if one not in PARTS]
    for folder in [] if arguments.compare else folders:
        task = chosen(folder)
        output = task.output
        run = Material(output, read_run(output.run.arm, output.run.seed, output), task)
        for name in names:
            store(name, [run.who | one for one in PARTS[name][0](run)], run.who["digest"])
    for name in names:
        for target, compare in PARTS[name][1].items():
            table = compare(pd.read_csv(FOLDER / f"{name}.csv"))
            table.to_csv(FOLDER / f"{target}.csv", index=False, lineterminator="\n", float_format="%.6g")
            print(table.to_string(index=False))


if __name__ == "__main__":
    main()
