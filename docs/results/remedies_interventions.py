"""Change magnitudes of trained bindings without training; run it at the root of a project with runs of `remedies`.

`python docs/results/remedies_interventions.py models/remedies/fft/seed-* models/remedies/fft_unitary/seed-*` writes
docs/results/remedies/interventions.csv (`--name`: another file): digest, arm, seed, intervention, metric, value. Phases
and the root mean square of each row stay as they were; only magnitudes change:

untouched        the trained model
position flat    position spectra of equal magnitudes
both flat        position and word spectra of equal magnitudes
position Rayleigh, both Rayleigh   magnitudes drawn at random, as those of a Gaussian vector: what a plain product has

A model with unitary positions then multiplies by the changed magnitudes, as plain binding does. Metrics: loss and
accuracy on the test split; share of tokens whose word and whose position a linear map reads after the embedding block
and at the last layer, with the control of `isoscope.geometry.decodability`.
"""

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from checkpoints import chosen
from torch import Tensor

from isoscope.geometry import decodability
from isoscope.models.encoder import load_classifier
from isoscope.objectives import classification
from isoscope.platform.outputs import read_output
from isoscope.training.evaluation import to_device

SENTENCES = 150
"""Sentences of the test split whose tokens are read."""
INTERVENTIONS = {
    "untouched": (),
    "position flat": (("position", "flat"),),
    "both flat": (("position", "flat"), ("word", "flat")),
    "position Rayleigh": (("position", "Rayleigh"),),
    "both Rayleigh": (("position", "Rayleigh"), ("word", "Rayleigh")),
}
Draw = Callable[[torch.Size], Tensor]


def with_magnitudes(table: Tensor, kind: str, draw: Draw) -> Tensor:
    """Return the rows with other magnitudes: equal, or Rayleigh; phases and each row's power stay."""
    spectrum = torch.fft.rfft(table.double())
    magnitude = draw(spectrum.shape).double() if kind == "Rayleigh" else torch.ones_like(spectrum.abs())
    changed = torch.fft.irfft(spectrum.sgn() * magnitude, n=table.shape[-1])
    scale = table.double().norm(dim=-1, keepdim=True) / changed.norm(dim=-1, keepdim=True).clamp_min(1e-30)
    return (changed * scale).to(table.dtype)


def rayleigh(seed: int) -> Draw:
    """Return a source of Rayleigh magnitudes with a mean square of 1."""
    generator = torch.Generator().manual_seed(seed)
    return lambda shape: torch.empty(shape).exponential_(generator=generator).sqrt()


@torch.no_grad()
def intervene(model: torch.nn.Module, name: str, seed: int) -> None:
    """Change a model's tables in place; unitary binding becomes plain binding with these magnitudes."""
    block = model.base_model.embeddings
    options = {"magnitudes": ("product", "unit"), "positions": ("table",), "start": ("random",)}
    if any(getattr(block.fusion, option, None) not in known for option, known in options.items()):
        raise SystemExit(f"{type(block.fusion).__name__}: expected plain or unitary binding with a random start")
    draw = rayleigh(seed)
    for table, kind in INTERVENTIONS[name]:
        weight = getattr(block, f"{table}_embeddings").weight
        weight.copy_(with_magnitudes(weight, kind, draw))
        if table == "position" and block.fusion.magnitudes == "unit":
            spectrum = torch.fft.rfft(weight).abs().square().mean(-1, keepdim=True).sqrt()
            weight.div_(spectrum)  # as unitary binding has it: a mean square of 1
            block.fusion.magnitudes = "product"


@torch.no_grad()
def read_back(model: torch.nn.Module, objective: classification.Classification) -> Iterator[tuple[str, float]]:
    """Yield the shares of tokens read back after the embedding block and at the last layer."""
    states: dict[str, list[Tensor]] = {"block": [], "last": []}
    words, positions, sentences = [], [], []
    for place, row in enumerate(range(SENTENCES)):
        batch = to_device(objective.batch("test", np.array([row]), None), torch.device("cpu"))
        batch.pop("labels")
        hidden = model.base_model(**batch, output_hidden_states=True).hidden_states
        inner = slice(1, batch["input_ids"].shape[1] - 1)  # without [CLS] and [SEP]
        states["block"].append(hidden[0][0, inner])
        states["last"].append(hidden[-1][0, inner])
        words.append(batch["input_ids"][0, inner])
        positions.append(torch.arange(batch["input_ids"].shape[1])[inner])
        sentences.append(torch.full((len(words[-1]),), place))
    targets = {
        "word": model.base_model.embeddings.word_embeddings.weight[torch.cat(words)].numpy(),
        "position": model.base_model.embeddings.position_embeddings.weight[torch.cat(positions)].numpy(),
    }
    for name, vectors in states.items():
        found = decodability(torch.cat(vectors).numpy(), targets, torch.cat(sentences).numpy(), seed=0)
        for read, figures in found.items():
            yield f"{name}/{read}", figures.rate
            yield f"{name}/{read}_control", figures.control


def measure(run: Path) -> Iterator[tuple[str, str, float]]:
    """Yield intervention, metric and value of a run's chosen checkpoint."""
    one = chosen(run)
    for name in INTERVENTIONS:
        model = load_classifier(one.folder)
        intervene(model.eval(), name, one.output.run.seed)
        scored = one.on_test(model)
        metrics = scored.tally.metrics()
        yield from ((name, metric, metrics[metric]) for metric in ("loss", "accuracy"))
        yield from ((name, metric, value) for metric, value in read_back(model, one.objective))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, help="folders of finished runs")
    parser.add_argument("--name", default="interventions", help="file to write (default: interventions)")
    parser.add_argument("--to", type=Path, default=Path(), help="checkout to write to (default: the current folder)")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    rows = []
    for folder in arguments.runs:
        run = read_output(folder).run
        rows += [(run.digest[:12], run.arm, run.seed, *row) for row in measure(folder)]
    target = arguments.to / f"docs/results/remedies/{arguments.name}.csv"
    target.parent.mkdir(parents=True, exist_ok=True)
    table = pd.DataFrame(rows, columns=["digest", "arm", "seed", "intervention", "metric", "value"])
    table.to_csv(target, index=False, lineterminator="\n")
    print(f"{target}: {len(arguments.runs)} runs")


if __name__ == "__main__":
    main()
