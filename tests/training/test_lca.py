"""Loss change allocation in real training: brute force, closure, exact resume, no effect, planted harm."""

import copy
import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch.nn import functional as F
from transformers import RobertaConfig, RobertaForSequenceClassification

from isoscope.base.errors import InputError
from isoscope.models.components import members
from isoscope.objectives import Forward, Task
from isoscope.objectives.classification import Classification
from isoscope.platform.config.training import Allocation as Settings
from isoscope.studies.dynamics.hurting import hurts_surely
from isoscope.training.allocation import integrate
from isoscope.training.allocation_sets import fixed_rows, undisturbed
from isoscope.training.allocation_tables import PARTS
from isoscope.training.loop import Loop
from isoscope.training.observers import Observer
from isoscope.training.observers.lca import AdamParts, Allocation
from isoscope.training.packed import Packed
from language_material import ALLOCATED
from training_runs import completed, equal, logged, make_loop, weights

ASKED: dict[str, Any] = ALLOCATED | {"chords": 2, "minibatch": False}
KEYS = ["stack", "layer", "component", "head", "part"]
AT_ONCE = {"kind": "linear", "warmup": 0.0, "epochs": None}
HOT: dict[str, Any] = {"schedule": AT_ONCE, "learning_rate": 5e-3}


class Double(Classification):
    """The classification in float64, on a model so small that each parameter can be moved by itself."""

    width = 4

    def build(self, model: Any, checkpoint: Any) -> Any:
        encoder = model["encoder"] | {"hidden_size": self.width, "intermediate_size": self.width, "init_std": 0.5}
        return super().build(model | {"encoder": encoder | {"initializer_range": 0.5}}, checkpoint).double()

    def forward(self, model: Any, batch: Any, places: Any = (), columns: bool = False) -> Forward:
        found = super().forward(model, batch, places, columns)
        logits = model(**{name: value for name, value in batch.items() if name != "labels"}).logits
        return found._replace(loss=F.cross_entropy(logits, batch["labels"], reduction="sum"))


def double(task: Task) -> Double:
    return Double.read(task)


def allocation_of(loop: Loop) -> Allocation:
    (found,) = [one for one in loop.observers if isinstance(one, Allocation)]
    return found


def finished(folder: Path, *, asked: dict[str, Any] | None = None, **settings: Any) -> Loop:
    return completed(folder, allocation=ASKED | (asked or {}), **settings)


def table(folder: Path, name: str = "allocation") -> pd.DataFrame:
    return pd.read_parquet(folder / "work" / f"{name}.parquet")


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.exhaustive)])
def test_each_parameter_by_brute_force(tmp_path: Path, every: int) -> None:
    """Finite differences of the loss, one parameter at a time, at Simpson's three points of a real update's line."""
    loop = make_loop(tmp_path, make=double, allocation=ASKED | {"sentences": 16, "folds": 2}, **HOT)
    observer, model = allocation_of(loop), loop.raw_model
    packed = observer.packed
    start = packed.read()
    loop.rehearse(3)
    end = packed.read()
    rows = fixed_rows(loop.objective, "train", 16)
    inputs = {name: torch.from_numpy(value) for name, value in loop.objective.batch("train", rows, None).items()}

    @torch.no_grad()
    def loss(at: torch.Tensor) -> float:
        packed.write(at)
        return float(loop.objective.forward(model, inputs).loss) / len(rows)

    change, expected = end - start, torch.zeros_like(start)
    moved = change.nonzero()[:, 0]
    with undisturbed(model, observer.parameters):
        for node, weight in ((0.0, 1 / 6), (0.5, 4 / 6), (1.0, 1 / 6)):
            point = start + node * change
            for index in moved[::every].tolist():
                step = torch.zeros_like(start)
                step[index] = 1e-5
                slope = (loss(point + step) - loss(point - step)) / 2e-5
                expected[index] += weight * slope * change[index]
        interval = observer._interval(_fresh(observer), start, end, {})
        back = observer._interval(_fresh(observer), end, start, {})
        fresh = _fresh(observer)
        fresh.begin(start, end)
        found = integrate(fresh.at, "simpson").values[1] * change
        fall = loss(end) - loss(start)
    assert len(moved) > 300
    assert found[moved[::every]].abs().max() > 1e-3
    torch.testing.assert_close(found[moved[::every]], expected[moved[::every]], rtol=0, atol=1e-7)
    (by_group,) = packed.allocated([found / change.where(change != 0, 1.0)], start, end)
    np.testing.assert_allclose(interval["value"], by_group, rtol=1e-10, atol=1e-15)
    if every == 1:
        by_group = packed.paired(expected, torch.ones_like(start))
        np.testing.assert_allclose(interval["value"], by_group, atol=1e-6)
    assert interval["helping"].sum() == int((found < 0).sum())
    assert interval["hurting"].sum() == int((found > 0).sum())
    assert interval["largest"].max() == pytest.approx(float(found.max()), rel=1e-12)
    assert np.subtract(*interval["losses"][::-1]) == pytest.approx(fall, abs=1e-12)
    np.testing.assert_allclose(back["value"], -interval["value"], atol=1e-12)


def _fresh(observer: Allocation) -> Any:
    """A path without the gradients that an earlier line left."""
    path = copy.copy(observer.paths[0])
    path.losses, path._kept, path._ends, path.gap = {}, ([], torch.empty(0)), {}, 0.0
    return path


def test_adaptive_splits_close_in_float64(tmp_path: Path) -> None:
    asked = {"tolerance": 1e-7, "most_splits": 64, "dense": 0, "chords": 1, "parts": False}
    finished(tmp_path, asked=asked, make=double, learning_rate=2e-2)
    closure = table(tmp_path, "closure")
    assert (closure["gap"].abs() <= 1e-7).all()
    assert closure["splits"].max() > 2
    coarse = asked | {"tolerance": None}
    finished(tmp_path / "coarse", asked=coarse, make=double, learning_rate=2e-2)
    assert table(tmp_path / "coarse", "closure")["gap"].abs().max() > 1e-6


def test_ends_are_shared_and_a_line_that_closes_by_its_ends_has_no_other_pass(tmp_path: Path) -> None:
    """Counts the passes with gradients; a line of n parts needs n, of which its end is one."""
    loop = make_loop(tmp_path, allocation=ASKED | {"tolerance": 2e-4, "dense": 4, "chords": 4}, **HOT)
    observer, forward, passes = allocation_of(loop), loop.objective.forward, []

    def counted(model: Any, *rest: Any, **options: Any) -> Forward:
        if not model.training and torch.is_grad_enabled():
            passes.append(model)
        return forward(model, *rest, **options)

    loop.objective.forward = counted
    loop.fit()
    splits = observer.rows.stacked("splits")
    assert (splits == 1).any()
    assert (splits > 1).any()
    expected = sum(
        sum(map(len, path.parts)) * (1 + len(own)) + sum(map(len, path.inside)) * (own - 1).sum()
        for path, own in zip(observer.paths, splits.T, strict=True)
    )
    assert len(passes) == expected


@pytest.mark.parametrize("tolerance, by_ends", [(2e-3, True), (1e-6, False)])
def test_what_saves_passes_changes_less_than_a_standard_error(tmp_path: Path, tolerance: float, by_ends: bool) -> None:
    """Against Simpson's rule by folds at all three points."""
    asked = ASKED | {"sentences": 32, "folds": 8, "tolerance": tolerance, "most_splits": 2}
    loop = make_loop(tmp_path, allocation=asked, rows=64, **HOT | {"learning_rate": 1e-3})
    observer, start = allocation_of(loop), allocation_of(loop).packed.read()
    loop.rehearse(3)
    end, every = observer.packed.read(), _fresh(observer)
    every.inside = None
    with undisturbed(loop.raw_model, observer.parameters):
        found = observer._interval(_fresh(observer), start, end, {})
        observer.tolerance = None
        wanted = observer._interval(every, start, end, {})
    assert (found["splits"], wanted["splits"]) == (1 if by_ends else 2, 2)
    own, error = (one["folds"].std(0, ddof=1) / np.sqrt(8) for one in (found, wanted))
    most = np.abs(wanted["value"]).max()
    some = np.abs(wanted["value"]) > 1e-4 * most
    assert some.sum() > 20
    assert (np.abs(found["value"] - wanted["value"]) <= 0.5 * error)[some].all()
    assert (np.abs(own - error) <= 0.25 * error)[some].all(), "the error of a standard error is .27 of it"
    assert (np.sqrt(np.square(found["folds"] - wanted["folds"]).mean(0)) <= error)[some].all()
    if not by_ends:
        np.testing.assert_allclose(found["value"], wanted["value"], atol=1e-6 * most)


@pytest.mark.parametrize("settings", [{}, {"fusion": {"kind": "additive"}, "family": "roberta", "accumulation": 2}])
def test_it_closes_and_changes_nothing(tmp_path: Path, settings: dict[str, Any]) -> None:
    plain = completed(tmp_path / "plain", **settings, **HOT)
    draws = torch.get_rng_state()
    observed = finished(tmp_path / "observed", asked={"minibatch": True}, **settings, **HOT)
    assert torch.equal(torch.get_rng_state(), draws)
    assert equal(weights(plain), weights(observed))
    assert observed.raw_model.training == plain.raw_model.training
    own = [point for point in observed.log.points if not point[0].startswith(("allocation/", "speed/"))]
    assert own == [point for point in plain.log.points if not point[0].startswith("speed/")]
    closure = table(tmp_path / "observed", "closure")
    assert closure["closed"].all()
    losses = closure.query("not total and set == 'train'")
    assert (losses["before"].to_numpy()[1:] == losses["after"].to_numpy()[:-1]).all()
    allocation = table(tmp_path / "observed")
    sums = allocation[allocation["estimator"] == "simpson"].groupby(["set", "update"], observed=True)["value"].sum()
    for row in closure[~closure["total"]].itertuples():
        assert sums[row.set, row.update] == pytest.approx(row.allocated, abs=1e-15)
    assert allocation.groupby(["start", "update", "set", *KEYS], observed=True, dropna=False).size().eq(1).all()
    (total,) = closure.query("total and set == 'train'")["gap"]
    assert logged(observed, "allocation/train_gap")[-1] == pytest.approx(total, abs=1e-12)
    assert logged(observed, "allocation/validation_closed")[-1] == 1.0


def test_the_columns_agree(tmp_path: Path) -> None:
    finished(tmp_path, asked={"minibatch": True}, **HOT)
    allocation = table(tmp_path)
    path = allocation[allocation["estimator"] == "simpson"]
    folds = path[[f"fold_{number}" for number in range(1, 5)]].to_numpy(np.float64)
    scale = path["value"].abs().max()
    np.testing.assert_allclose(folds.mean(1), path["value"], atol=1e-6 * scale)
    np.testing.assert_allclose(folds.std(1, ddof=1) / 2, path["se"], atol=1e-6 * scale)
    single = path["update"] == path["start"] + 1
    np.testing.assert_allclose(path[[*PARTS]].sum(axis=1)[single], path["value"][single], atol=2e-5 * scale)
    assert path.loc[~single, [*PARTS]].isna().all(axis=None)
    assert (path.loc[path["update"] == 1, "momentum"] == 0).all()
    assert (path.loc[path["update"] == 3, "momentum"] != 0).any()
    by_update = table(tmp_path, "minibatch")
    sums = allocation[allocation["estimator"] == "minibatch"].groupby("update")["value"].sum()
    ends = [0, *sums.index]
    for start, end in pairwise(ends):
        inside = by_update[(by_update["update"] > start) & (by_update["update"] <= end)]["value"].sum()
        assert sums[end] == pytest.approx(inside, rel=1e-5)
    change = table(tmp_path, "closure").query("total and set == 'train'")["change"].item()
    assert abs(by_update["value"].sum() - change) > 0.005, "it is another quantity"


class StepGradient(Observer):
    """The minibatch allocation computed parameter by parameter."""

    name = "step_gradient"

    def begin(self, context: Any) -> None:
        self.model, self.sums = context.model, []

    def before_update(self, step: int) -> dict[str, float]:
        named = self.model.named_parameters()
        self.kept = [(one, one.grad.double().clone(), one.detach().double().clone()) for _, one in named]
        return {}

    def after_update(self, step: int, points: Any) -> dict[str, float]:
        self.sums.append(sum(float((grad * (one.detach() - before)).sum()) for one, grad, before in self.kept))
        return {}


def test_minibatch_multiplies_the_unclipped_gradient_by_the_clipped_step(tmp_path: Path) -> None:
    check = StepGradient()
    finished(tmp_path, asked={"minibatch": True, "dense": 0}, observers=[check], clip_norm=1e-3)
    found = table(tmp_path, "minibatch").groupby("update")["value"].sum()
    np.testing.assert_allclose(found, check.sums, rtol=1e-5)


def test_a_line_over_the_update_that_releases_parameters_closes(tmp_path: Path) -> None:
    freeze = {"after": 0, "until": 6, "groups": ["enc.emb", "enc.pos", "enc.LayerNorm", "enc.0"]}
    finished(tmp_path, asked={"dense": 0, "chords": 1}, freeze=freeze, epochs=2, weight_decay=0.5)
    closure, found = table(tmp_path, "closure"), table(tmp_path)
    assert closure["closed"].all(), "the line spans the update at which they are released"
    assert (found.loc[found["component"] == "emb", "value"] != 0).all()


def test_accumulation_is_allocated_by_update(tmp_path: Path) -> None:
    for parts in (1, 4):
        finished(tmp_path / str(parts), dropout=0.0, accumulation=parts, epochs=1)
    whole, split = (table(tmp_path / str(parts)) for parts in (1, 4))
    scale = whole["value"].abs().max()
    np.testing.assert_allclose(split["value"], whole["value"], atol=1e-3 * scale)
    assert (whole["update"] == split["update"]).all()


@pytest.mark.parametrize("reversing", [True, False])
def test_only_a_group_whose_updates_are_reversed_surely_hurts(tmp_path: Path, reversing: bool) -> None:
    """Its updates are replaced by their negative; all other groups move as AdamW says. Without that, no group hurts."""
    asked = ASKED | {"sentences": 128, "folds": 8, "dense": 24, "chords": 0, "parts": False, "estimator": "trapezoid"}
    loop = make_loop(
        tmp_path, allocation=asked, rows=128, epochs=2, batch_size=16, dropout=0.0, **HOT | {"learning_rate": 2e-3}
    )
    module = loop.raw_model.bert.encoder.layer[1].output.dense
    kept: list[torch.Tensor] = []
    loop.optimizer.register_step_pre_hook(lambda *_: kept.extend(one.detach().clone() for one in module.parameters()))

    @torch.no_grad()
    def reverse(*_: Any) -> None:
        for one, before in zip(module.parameters(), kept, strict=True):
            if reversing:
                one.copy_(2 * before - one)
        kept.clear()

    loop.optimizer.register_step_post_hook(reverse)
    loop.test(loop.fit())
    found = table(tmp_path).query("set == 'train'")
    columns = [f"fold_{number}" for number in range(1, 9)]
    blocks = found.groupby(["update", "layer", "component"], observed=True, dropna=False)[columns].sum()
    surely = hurts_surely(blocks.to_numpy(np.float64).T)
    shares = pd.Series(surely, blocks.index).groupby(["layer", "component"], dropna=False).mean()
    assert shares[shares > 0.5].index.tolist() == [(1, "W2")] * reversing, shares.to_dict()


def test_adams_parts_add_up_to_its_step_in_float64() -> None:
    model = small().double()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.3, betas=(0.8, 0.95))
    packed = Packed(members(model))
    parts = AdamParts(optimizer, packed.members)
    draw = torch.Generator().manual_seed(0)
    for number in range(3):
        for one in model.parameters():
            one.grad = torch.randn(one.shape, generator=draw, dtype=torch.float64)
        still = packed.members[number].parameter
        still.grad = None
        start = packed.read()
        parts.begin()
        optimizer.step()
        found = {name: packed.pack(changes) for name, changes in parts.end(packed.views(start)).items()}
        step = packed.read() - start
        torch.testing.assert_close(sum(found.values()), step, rtol=0, atol=1e-14)
        assert found["momentum"].any() == (number > 0)
        decay = torch.cat([one.reshape(-1) for one in packed.views(found["decay"])])
        assert decay.any()
        assert not packed.views(step)[number].any()


def small() -> Any:
    config = RobertaConfig(
        vocab_size=20, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8
    )
    return RobertaForSequenceClassification(config)


def test_what_it_cannot_do_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"training\.allocation\.folds: 32, but validation has 30 rows"):
        make_loop(tmp_path, allocation=ASKED | {"folds": 32, "sentences": 32})
    model = small()
    with pytest.raises(InputError, match=r"the optimiser is SGD; only torch's AdamW .* set parts to false"):
        AdamParts(torch.optim.SGD(model.parameters(), lr=0.1), members(model))
    next(model.parameters()).ds_id = 0  # the mark of DeepSpeed  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="is sharded; allocation needs whole weights"):
        Packed(members(model))


@pytest.mark.parametrize(
    "changed, said",
    [
        ({"folds": 17}, "folds 17 exceed sentences 16"),
        ({"dense": 0, "chords": 0}, "no interval; set chords to 100"),
        ({"estimator": "first_order", "tolerance": 0.1}, "set tolerance to null"),
    ],
)
def test_settings_that_exclude_each_other(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Settings.model_validate(ASKED | changed)


PROCESS = """
import sys
from itertools import pairwise
from pathlib import Path
from test_lca import ASKED, finished
finished(Path(sys.argv[1]), asked={"dense": 2, "chords": 1, "minibatch": True}, dropout=0.0, epochs=1)
"""


def test_two_processes_allocate_as_a_single_process(tmp_path: Path) -> None:
    """Each evaluates whole folds, so only the training itself may round differently."""
    finished(tmp_path / "one", asked={"dense": 2, "chords": 1, "minibatch": True}, dropout=0.0, epochs=1)
    here = Path(__file__).parent
    shared = {"PYTHONPATH": os.pathsep.join([str(here), str(here.parent), *sys.path]), "WORLD_SIZE": "2"}
    shared |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(29500 + os.getpid() % 500), "ACCELERATE_USE_CPU": "true"}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS, str(tmp_path / f"rank-{rank}")],
            env={**os.environ, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    for process in processes:
        _, error = process.communicate(timeout=300)
        assert process.returncode == 0, error
    one, two = table(tmp_path / "one"), table(tmp_path / "rank-0")
    assert not (tmp_path / "rank-1/work/allocation.parquet").exists()
    assert one[["start", "update", "set", *KEYS]].equals(two[["start", "update", "set", *KEYS]])
    np.testing.assert_allclose(two["value"], one["value"], atol=1e-4 * one["value"].abs().max())
    first = one["start"].eq(0) & one["estimator"].eq("simpson")
    assert (one.loc[first, "helping"] - two.loc[first, "helping"]).abs().sum() < 0.01 * one.loc[
        first, "parameters"
    ].sum()
    traces = [json.loads((tmp_path / name / "work/trace.json").read_text()) for name in ("one", "rank-0")]
    assert len(traces[0]["steps"]) == len(traces[1]["steps"])
