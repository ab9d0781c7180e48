"""Alignment: a hybrid's encoder learns to give the states that the decoder's own encoder gives for the same text.

Source: Cao et al. 2020 (https://arxiv.org/abs/2002.03518), as adapted by Vázquez et al. 2021: a squared distance from
the target, and an anchor to the states at the start. Here over all tokens; both encoders read the same tokens.
"""

import copy
import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isoscope import plugins
from isoscope.base.atomic_files import write_text
from isoscope.base.errors import InputError
from isoscope.geometry.linear_maps import error, r2_by_dimension, retrieval
from isoscope.geometry.neighbour_similarity import RSA, Neighbours
from isoscope.geometry.similarity import CKA, PWCCA, Procrustes
from isoscope.metrics.alignment_distances import GENERATED, METRICS, Distances
from isoscope.models import language_models
from isoscope.models.encoder import load_encoder
from isoscope.models.hybrid import TARGET
from isoscope.objectives import Batch, Forward, Indices, Numbers, Place, Scored, Task, as_vector, points_at
from isoscope.objectives.language import padded, sides
from isoscope.objectives.planned import Planned, check_start

ITEMS = 1000
"""Sentences of the test split that are measured, with a token each."""
PER_DIMENSION = 20
"""Sentences per principal component of both spaces, for PWCCA."""


@plugins.objective("alignment")
class Alignment(Planned):
    """Minimise ‖f(s) − g(s)‖² + anchor · ‖f(s) − f₀(s)‖² per token and dimension.

    f: the hybrid's encoder with its map, f₀: the same at the start, g: the encoder of the decoder's model. The decoder
    is not used and does not change.
    """

    metrics, generated = METRICS, GENERATED

    def __init__(self, task: Task, *, anchor: float) -> None:
        self.texts, self.anchor = sides(task, masks=False), anchor
        super().__init__(task, self.texts.source)

    def build(self, model: Mapping[str, Any], checkpoint: Path | None) -> Any:
        if checkpoint is None or not (checkpoint / TARGET).is_dir():
            raise InputError(f"model.encoder.kind: {model['encoder']['kind']!r}; objective 'alignment' needs 'hybrid'")
        found = language_models.from_run("translation", checkpoint)
        check_start(found, checkpoint, model, self.task)
        found.decoder.requires_grad_(False)
        self.target = load_encoder(checkpoint / TARGET).requires_grad_(False)
        self.start = copy.deepcopy(found.encoder).eval().requires_grad_(False)
        return found

    def tally(self, vector: Numbers | None = None) -> Distances:
        loss, distance, moved, count = np.zeros(4) if vector is None else vector
        return Distances(float(loss), float(distance), float(moved), int(count))

    def batch(self, split: str, rows: Indices, epoch: int | None) -> Batch:
        ids, mask = padded([self.splits[split].ids[row] for row in rows], self.texts.specials.pad)
        return {"input_ids": ids, "attention_mask": mask}

    def weight(self, split: str, rows: Indices, epoch: int | None) -> float:
        return float(self.tokens(split, rows))

    def forward(
        self, model: Any, batch: Mapping[str, Tensor], places: Collection[Place] = (), columns: bool = False
    ) -> Forward:
        output = model(**batch, output_hidden_states=bool(places))
        found = output.last_hidden_state.float()
        there = batch["attention_mask"].bool()
        with torch.no_grad():
            aims = [one.to(found.device)(**batch).last_hidden_state for one in (self.target, self.start)]
        each = [((found - aim) ** 2).mean(-1).masked_fill(~there, 0.0).sum(1) for aim in aims]
        by_row = each[0] + self.anchor * each[1]
        loss = by_row.sum()
        tally = as_vector(loss, *(one.sum() for one in each), there.sum())
        points = points_at(output.hidden_states, batch["attention_mask"], places)
        return Forward(loss, tally, points, {"loss": by_row.detach().double()} if columns else {})

    def finish(self, model: Any, scored: Scored, folder: Path) -> dict[str, float]:
        """Write alignment.json: `compared` with the target, before and after the alignment; return it of after.

        Before: the start's encoder without its map, because a fitted map is a part of the alignment.
        """
        rows = np.arange(min(self.size(scored.split), ITEMS))
        target = self.states(self.target, scored.split, rows)
        states = {
            "before": self.states(self.start, scored.split, rows, mapped=False),
            "after": self.states(model.encoder, scored.split, rows),
        }
        found = {when: compared(points, target) for when, points in states.items()}
        write_text(folder / "alignment.json", json.dumps(found, indent=1) + "\n", "table")
        return {name: value for name, value in found["after"].items() if name not in ("n", "components", "error")}

    @torch.inference_mode()
    def states(self, encoder: Any, split: str, rows: Indices, *, mapped: bool = True) -> Numbers:
        """Return an encoder's last states of a token of each row, `[n, d]`: a text token, the same for every model.

        `mapped`: through a hybrid's map; else those that the map reads.
        """
        read = encoder if mapped else encoder.unmapped
        device, draws = next(encoder.parameters()).device, np.random.default_rng(0).random(self.size(split))

        def of(part: Indices) -> Numbers:
            batch = {name: torch.from_numpy(one).to(device) for name, one in self.batch(split, part, None).items()}
            output: Numbers = read(**batch).last_hidden_state.double().cpu().numpy()
            inside = np.maximum(self.lengths[split][part] - 2, 1)
            places = np.minimum(1 + (draws[part] * inside).astype(np.int64), output.shape[1] - 1)
            return output[np.arange(len(part)), places]

        return np.stack(self.by_row(encoder, split, rows, of))


def compared(found: Numbers, target: Numbers) -> dict[str, float]:
    """Return how near points `[n, d]` are to their targets `[n, d]`, and how alike the spaces are.

    - `error`: squared distance per item and dimension. `r2`: 1 − squared error / variance, mean over the dimensions.
    - `retrieval_*`, `cosine_*`: share of items whose own target is the nearest, by CSLS and by cosine; chance 1/n.
    - `cka`, `procrustes`, `rsa`, `neighbours` (10), and `pwcca` over the first `components` of both spaces.

    Spaces of unequal width have only the measures of the last line.
    """
    n, components = len(found), max(1, len(found) // (2 * PER_DIMENSION))
    return {
        "n": n,
        **(_distances(found, target) if found.shape == target.shape else {}),
        "cka": CKA().score(found, target),
        "procrustes": Procrustes().score(found, target),
        "rsa": RSA().score(found, target),
        "neighbours": Neighbours(k=min(10, n - 2)).score(found, target),
        "pwcca": PWCCA(components=components, few=True).score(found, target),
        "components": components,
    }


def _distances(found: Numbers, target: Numbers) -> dict[str, float]:
    """Return the measures of `compared` that need spaces of one width."""
    by_csls, by_cosine = retrieval(found, target), retrieval(found, target, neighbours=None)
    return {
        "error": error(found, target),
        "r2": float(np.nanmean(r2_by_dimension(found, target))),
        "retrieval_forward": by_csls.forward,
        "retrieval_back": by_csls.back,
        "cosine_forward": by_cosine.forward,
        "cosine_back": by_cosine.back,
    }
