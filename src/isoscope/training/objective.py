"""What an update minimises: the task's loss and a penalty on the geometry of the whole effective batch."""

from typing import Any, NamedTuple

import numpy as np
import torch
from accelerate import Accelerator
from torch import Tensor
from torch.nn import functional as F

from isoscope.config.training import Watch
from isoscope.corpora.batches import Indices, collate, rank_slice
from isoscope.corpora.tokens import Encoded
from isoscope.training.anisotropy import batch_figures
from isoscope.training.determinism import restore_rng, rng_state
from isoscope.training.evaluation import Place, Sums, sums, to_device
from isoscope.training.penalised import Penalised
from isoscope.training.ranks import Ranks
from isoscope.training.representations import points_of, points_per_sentence


class Whole(NamedTuple):
    """Points `[n, d]` of a global batch in its order, the place in it of their sentences, and which are one's own."""

    points: Tensor
    owners: Indices
    mine: Tensor


class Objective:
    """The mean cross-entropy of a global batch plus weight × penalty of its points, and their gradients.

    The penalty is of all points of the batch, over all processes and micro-batches. Its gradient by the points comes
    first, from a pass without graph where there are several micro-batches; each then sends its share back through its
    own graph, run again from the same state of the generators. So it equals the single large batch.
    """

    def __init__(
        self,
        model: Any,
        train: Encoded,
        *,
        pad_id: int,
        accelerator: Accelerator,
        ranks: Ranks,
        accumulation: int,
        classes: int,
        penalised: Penalised | None,
        watch: Watch | None,
    ) -> None:
        self.model, self.train, self.pad_id = model, train, pad_id
        self.accelerator, self.ranks = accelerator, ranks
        self.accumulation, self.classes = accumulation, classes
        self.penalised, self.watch = penalised, watch
        self._places: dict[str, Place] = {}
        if penalised is not None:
            self._places["penalty"] = Place(penalised.points.layer, penalised.points.vectors)
        if watch is not None:
            self._places["watch"] = Place(watch.layer, watch.vectors)

    def backward(self, rows: Indices, *, step: int, total: int, watched: bool) -> tuple[Sums, dict[str, float]]:
        """Add the gradients of the global batch `rows` at update `step` of `total`.

        Returns this process's part of loss and predictions, and the figures of the penalty and, where `watched`, of
        anisotropy, which are the whole batch's and the same in every process.
        """
        part = Sums.zero(self.classes)
        mine = self.ranks.share(rows)
        micros = np.array_split(mine, self.accumulation) if self.accumulation > 1 else [mine]
        if self.ranks.size == 1:
            micros = [micro for micro in micros if len(micro)]
        places = {name: place for name, place in self._places.items() if watched or name == "penalty"}
        ahead = bool(places) and len(micros) > 1
        states: list[dict[str, Tensor]] = []
        gradient: Tensor | None = None
        figures: dict[str, float] = {}
        if ahead:
            clouds: dict[str, list[Tensor]] = {name: [] for name in places}
            for micro in micros:
                states.append(rng_state())
                with torch.no_grad():
                    _, found, _ = self._forward(micro, rows, places)
                for name, points in found.items():
                    clouds[name].append(points)
            whole = {name: torch.cat(parts) for name, parts in clouds.items()}
            gradient, figures = self._look(whole, rows, step, total)
        given = 0
        for number, micro in enumerate(micros, start=1):
            # Gradients are averaged over processes, and each must take part: one without rows gives a row no weight.
            with self.ranks.hold_gradients(self.model, number < len(micros)):
                if ahead:
                    restore_rng(states[number - 1])
                scores, found, labels = self._forward(micro, rows, places)
                loss = F.cross_entropy(scores, labels, reduction="sum")
                if places and not ahead:
                    gradient, figures = self._look(found, rows, step, total)
                minimised = loss / (len(rows) / self.ranks.size) if len(micro) else 0 * loss
                if gradient is not None and "penalty" in found:
                    mine_of = gradient[given : given + len(found["penalty"])]
                    given += len(found["penalty"])
                    minimised = minimised + self.ranks.size * (found["penalty"] * mine_of).sum()
                self.accelerator.backward(minimised)
            if len(micro):
                part += sums(loss, scores, labels, self.classes)
        return part, figures

    def _forward(
        self, micro: Indices, rows: Indices, places: dict[str, Place]
    ) -> tuple[Tensor, dict[str, Tensor], Tensor]:
        """Scores, points by place (none of a row that only takes part) and labels of a micro-batch."""
        used = micro if len(micro) else rows[:1]
        inputs = to_device(collate(self.train, used, pad_id=self.pad_id), self.accelerator.device)
        labels = inputs.pop("labels")
        if not places:
            return self.model(**inputs).logits.float(), {}, labels
        output = self.model(**inputs, output_hidden_states=True)
        found = {
            name: points_of(output.hidden_states, inputs["attention_mask"], **place._asdict())
            for name, place in places.items()
        }
        if not len(micro):
            found = {name: points[:0] for name, points in found.items()}
        return output.logits.float(), found, labels

    def _look(
        self, mine: dict[str, Tensor], rows: Indices, step: int, total: int
    ) -> tuple[Tensor | None, dict[str, float]]:
        """Own part of the penalty's gradient by the points, and the whole batch's figures."""
        gradient: Tensor | None = None
        figures: dict[str, float] = {}
        for name, points in mine.items():
            whole = self._whole(points.detach(), rows, self._places[name].vectors)
            if name == "watch":
                figures |= batch_figures(whole.points.double().cpu().numpy())
            elif self.penalised is not None:
                labels = torch.from_numpy(self.train.labels[rows[whole.owners]]).to(points.device)
                looked = self.penalised.look(whole.points, labels, step=step, total=total)
                figures |= looked.figures
                gradient = None if looked.gradient is None else looked.gradient[whole.mine.to(points.device)]
        return gradient, figures

    def _whole(self, points: Tensor, rows: Indices, vectors: str) -> Whole:
        """All processes' points of the global batch."""
        places = [rank_slice(np.arange(len(rows)), rank, self.ranks.size) for rank in range(self.ranks.size)]
        owners = [
            np.repeat(place, points_per_sentence(self.train.lengths[rows[place]].tolist(), vectors)) for place in places
        ]
        if self.ranks.size > 1:
            padded = points.new_zeros((max(len(one) for one in owners), points.shape[1]))
            padded[: len(points)] = points
            every = self.ranks.gather({"points": padded})
            parts = [one["points"][: len(owner)] for one, owner in zip(every, owners, strict=True)]
            points = torch.cat(parts).to(points.device)
        joined = np.concatenate(owners)
        order = np.argsort(joined, kind="stable")
        begin = sum(len(one) for one in owners[: self.ranks.rank])
        mine = np.argsort(order, kind="stable")[begin : begin + len(owners[self.ranks.rank])]
        return Whole(points[torch.from_numpy(order).to(points.device)], joined[order], torch.from_numpy(mine))
