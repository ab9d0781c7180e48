"""Compare the time of the persistent-entropy penalty, forward and backward, with the public implementation and gudhi.

The other implementations need an AGPL package. This script creates a separate environment for them, which shares torch
and isoscope with the current environment. Each implementation is timed in a loop, as timeit does, and also directly
after another implementation, with cold caches. Prints Markdown.
"""

import argparse
import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable, Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PEERS = ("torch-topological==0.1.9", "giotto-ph==0.2.4", "gudhi==3.13.0", "POT==0.9.7.post1")
WIDTH = 768
HEADS = ("least, ms", "middle, ms", "against ours")
_THERE = "ISOSCOPE_PEERS"


def enter(folder: Path) -> None:
    """Continue in the peers' environment; create it if it is missing."""
    python = folder / "bin/python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        site = next((folder / "lib").glob("python*/site-packages"))
        (site / "ours.pth").write_text(f"{sysconfig.get_path('purelib')}\n{ROOT / 'src'}\n{ROOT / 'benchmarks'}\n")
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-deps", *PEERS], check=True)
    os.execve(python, [str(python), *sys.argv], {**os.environ, _THERE: "1"})


def public_selection(lengths: Any) -> int:
    """Count the bars that the C-ratio rule keeps, bar by bar on tensors, as the public code does."""
    import math

    import torch

    falling = lengths.sort(descending=True).values
    first, last = falling[0], falling[-1]
    alpha = last / first
    bars = torch.cat([falling[1:], first[None]])
    while True:
        n = len(bars)
        total, kept = bars.sum(), n - 3
        for i in range(1, n - 2):
            most = torch.ceil(alpha * n * (alpha - 1 - alpha.log()) / (alpha - 1) ** 2)
            rest = bars[i:]
            entropy = -torch.sum(rest / rest.sum() * torch.log(rest / rest.sum()))
            after = rest.sum() + i * rest.sum() / entropy.exp()
            if total / after < 1:
                kept = i
                break
            total = after
        if math.isnan(most.item()) or most >= kept:
            return kept + 1
        bars = torch.cat([bars[:kept], last[None], first[None]])


def public_way() -> Callable[[Any], Any]:
    """Build a penalty from torch-topological's Vietoris–Rips complex and the selection bar by bar."""
    import torch
    from torch_topological.nn import VietorisRipsComplex

    vietoris_rips = VietorisRipsComplex(dim=0)

    def penalty(points: Any) -> Any:
        diagram = vietoris_rips(points)[0].diagram
        lengths = diagram[:, 1] - diagram[:, 0]
        with torch.no_grad():
            kept = public_selection(lengths)
        bars = lengths.sort(descending=True).values[:kept]
        share = bars / bars.sum()
        return (share * share.log()).sum()

    return penalty


def original(file: Path) -> Callable[[Any], Any]:
    """Load the public code: `topoentropy/loss_utils.py` of its repository."""
    spec = spec_from_file_location("original", file)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return lambda points: -module.entropy_loss(points, max_dim=1, use_in_cluster_l2=False)[0]


def gudhi_way() -> Callable[[Any], Any]:
    """Build a penalty from gudhi's Rips complex, its generators, and our selection."""
    import gudhi
    import torch

    from isoscope.geometry.barcodes import select

    def penalty(points: Any) -> Any:
        tree = gudhi.RipsComplex(points=points.detach().numpy()).create_simplex_tree(max_dimension=1)
        tree.compute_persistence(homology_coeff_field=2, min_persistence=-1)
        pairs = torch.from_numpy(tree.flag_persistence_generators()[0][:, 1:].copy())
        lengths = (points[pairs[:, 0]] - points[pairs[:, 1]]).norm(dim=1).double()[None]
        bars = lengths[torch.from_numpy(select(lengths.detach().numpy(), "c-ratio"))]
        share = bars / bars.sum()
        return (share * share.log()).sum()

    return penalty


def step(update: int, layers: int) -> Callable[[], None]:
    """Build one training step of BERT-base on `update` sentences of 64 tokens, like the Trainer's."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    model = BertForSequenceClassification(BertConfig(num_hidden_layers=layers))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    ids, labels = torch.randint(1, 30_000, (update, 64)), torch.randint(0, 2, (update,))

    def run() -> None:
        model(input_ids=ids, labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return run


def measure(threads: int, repeats: int, public_file: Path | None, *, peers: bool, sizes: Sequence[int]) -> None:
    """Print a table for this number of threads; without `peers`, of our implementation only."""
    import numpy as np
    import torch
    from timing import bound, interleave, table

    from isoscope.geometry.spanning_trees import distances
    from isoscope.penalties import PersistentEntropy

    torch.set_num_threads(threads)
    ours = PersistentEntropy("c-ratio", classes=1)
    all_bars = PersistentEntropy("all", classes=1)
    ways: dict[str, Callable[[Any, Any], Any]] = {
        "ours": lambda points, labels: ours(points, labels).penalty,
        "ours, all bars": lambda points, labels: all_bars(points, labels).penalty,
    }
    if peers:
        public, by_gudhi = public_way(), gudhi_way()
        ways["re-implementation"] = lambda points, labels: public(points)
        ways["gudhi"] = lambda points, labels: by_gudhi(points)
    if public_file is not None:
        itself = original(public_file)
        ways["public code"] = lambda points, labels: itself(points)
    rows = []
    for n in sizes:
        points = torch.from_numpy(np.random.default_rng(0).standard_normal((n, WIDTH)).astype(np.float32))
        points = points.clone()  # in memory aligned by torch, like a model's; numpy's arrays start inside a cache line
        points.requires_grad_()
        labels = torch.zeros(n, dtype=torch.int64)
        values = {name: float(way(points, labels).detach()) for name, way in ways.items()}
        for name in values.keys() - {"ours", "ours, all bars"}:
            assert abs(values["ours"] - values[name]) < 1e-5, values

        def run(way: Callable[[Any, Any], Any], points: Any = points, labels: Any = labels) -> None:
            points.grad = None
            way(points, labels).backward()

        calls = {name: (lambda way=way: run(way)) for name, way in ways.items()}
        calls["our distances alone"] = lambda points=points: distances(points.detach().numpy())
        calls["torch's pdist alone"] = lambda points=points: torch.nn.functional.pdist(points.detach())
        rounds = repeats if n == 64 else max(2, repeats // 8)
        behind, in_a_loop = interleave(calls, rounds), interleave(calls, rounds, in_a_row=5)
        limits = {"re-implementation": 30 if n == 64 else 100, "gudhi": 5}
        for name in limits.keys() & calls.keys():
            ratio = in_a_loop[name].least / in_a_loop["ours"].least
            bound(f"{name}, to ours, {n} points, {threads} threads", ratio, limits[name], least=True)
        for name in calls:
            figures = [
                text
                for seconds in (in_a_loop, behind)
                for text in (
                    f"{1e3 * seconds[name].least:.2f}",
                    f"{1e3 * seconds[name].middle:.2f}",
                    f"{seconds[name].least / seconds['ours'].least:.1f} ×",
                )
            ]
            rows.append((f"{n} points: {name}", *figures))
    title = f"{threads} thread{'s' if threads > 1 else ''}, forward and back, d = {WIDTH}"
    heads = ("way", *(f"{what}{where}" for where in (", in a loop", ", behind others") for what in HEADS))
    print(table(title, heads, rows))


def of_a_step(threads: int, *, layers: int = 12, batch: int = 64, rounds: int = 3) -> None:
    """Measure the penalty's share of the time of a BERT-base step, or of its first layers."""
    import torch
    from timing import bound, interleave

    from isoscope.penalties import PersistentEntropy

    torch.set_num_threads(threads)
    penalty, points = PersistentEntropy("c-ratio", classes=2), torch.randn(batch, WIDTH, requires_grad=True)
    labels = torch.arange(batch) % 2
    calls = {"step": step(batch, layers), "penalty": lambda: penalty(points, labels).penalty.backward()}
    seconds = interleave(calls, rounds)
    share = seconds["penalty"].least / seconds["step"].least
    what = f"of a step of {layers} layers of BERT-base ({batch} sentences of 64 tokens, {seconds['step'].least:.1f} s)"
    bound(what, 100 * share, 1, "%")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=Path, default=ROOT / "build/peers", help="the peers' environment")
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument(
        "--original", type=Path, metavar="FILE", help="loss_utils.py of the public repository, to time it too"
    )
    parser.add_argument("--smoke", action="store_true", help="test the script: only our implementation, few points")
    chosen = parser.parse_args()
    if chosen.smoke:
        measure(1, 1, None, peers=False, sizes=(8,))
        of_a_step(1, layers=1, batch=8, rounds=1)
    else:
        if _THERE not in os.environ:
            enter(chosen.peers)
        for count in (1, 2):
            measure(count, chosen.repeats, chosen.original, peers=True, sizes=(64, 512))
        of_a_step(2)
    from timing import conclude

    conclude(smoke=chosen.smoke)
