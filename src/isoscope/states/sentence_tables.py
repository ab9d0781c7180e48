"""Tables of sentence vectors over training: principal planes, persistence diagrams, spectra, rank of a decision.

Views of SUFO (Hsu et al. 2024) on singular values and on rank k: [CLS] of the last layer is rebuilt from some of its
principal components and passed through the trained pooler and classifier: from the k leading components, from all but
these, and from each of the first two alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import f1_score

from isoscope.geometry import persistence
from isoscope.geometry.moments import ALIKE, Floats, Ints, spectrum
from isoscope.geometry.planes import Alignment, planes
from isoscope.states.cloud import fault
from isoscope.states.trajectory import Arrays, Rows, Snapshot, Trajectory, tabled

KEPT = (1, 2, 5, 10)
"""Numbers of components kept or dropped together."""
ALONE = (1, 2)
"""Components passed through the head alone, as in Hsu et al. 2024."""
LEADING = 50
"""Number of singular values kept per cell; `cumulative` covers the rest."""


def feature_dynamics(run: Trajectory, alignment: Alignment) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Run `aligned` over training: the frames of a layer are its snapshots, the chosen epoch is the reference."""
    return aligned({one: run.arrays(one) for one in run.trained}, alignment, reference=run.best, vectors="first")


def aligned(
    states: Mapping[Snapshot, Arrays], alignment: Alignment, *, reference: Snapshot, vectors: str
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the coordinates of every sentence, and a row for each frame: one of `states` at a layer.

    First table: layer, snapshot, sentence, pc1, pc2. Second: layer, snapshot, step, explained variance along both axes,
    principal angles (degrees) to the reference, and whether the frame is degenerate (`isoscope.states.cloud.fault`).
    All states have the same sentences, width and depth.
    """
    snapshots = list(states)
    points, frames = [], []
    for layer in range(states[reference].shape(vectors)[0]):
        clouds = np.stack([one.layer(vectors, layer) for one in states.values()]).astype(np.float64)
        found = planes(clouds, alignment, reference=snapshots.index(reference))
        for number, snapshot in enumerate(snapshots):
            named = {"layer": layer, "snapshot": snapshot.name}
            plane = dict(zip(("pc1", "pc2"), found.coordinates[number].T.astype(np.float32), strict=True))
            points.append(pd.DataFrame({**named, "sentence": np.arange(clouds.shape[1]), **plane}))
            frames.append(
                {
                    **named,
                    "step": snapshot.step,
                    "epoch": snapshot.epoch,
                    **dict(zip(("explained_1", "explained_2"), found.explained[number], strict=True)),
                    **dict(zip(("angle_1", "angle_2"), found.angles[number], strict=True)),
                    "reference": snapshots[found.reference].name,
                    "degenerate": fault(clouds[number], sentences=True) is not None,
                }
            )
    return pd.concat(points, ignore_index=True), pd.DataFrame(frames).astype({"step": "Int64", "epoch": "Int64"})


def topology(run: Trajectory, *, points: int, seed: int, vectors: str = "first") -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return bars, and distances between diagrams, of the same sentences at each moment, at most `points` sentences.

    First table: moment, snapshot, degree (0, 1), birth, death. Second: moment, degree, bottleneck and 1-Wasserstein
    distance to the chosen snapshot's diagram, n. Each cloud is first scaled to a root mean squared distance of 1 from
    its mean, since size is not shape. A moment whose points are all equal is in neither table.
    """
    sentences = run.arrays(run.best).shape(vectors)[1]
    rows = np.sort(np.random.default_rng(seed).permutation(sentences)[:points])
    diagrams = {}
    for moment, snapshot in run.moments.items():
        drawn = run.arrays(snapshot).last(vectors).astype(np.float64)[rows]
        cloud = drawn - drawn.mean(0)
        size = np.sqrt((cloud**2).sum(1).mean())
        if size > ALIKE * np.sqrt((drawn**2).sum(1).mean()):
            diagrams[moment] = persistence.diagrams(cloud / size)
    bars, distances = [], []
    for moment, found in diagrams.items():
        for degree, diagram in enumerate(found):
            named = {"moment": moment, "snapshot": run.moments[moment].name, "degree": degree}
            bars.append(pd.DataFrame({**named, "birth": diagram[:, 0], "death": diagram[:, 1]}))
            if "chosen" in diagrams:
                away = diagram_distances(diagram, diagrams["chosen"][degree])
                distances.append({"moment": moment, "degree": degree, **away, "n": len(rows)})
    return (pd.concat(bars, ignore_index=True) if bars else pd.DataFrame()), pd.DataFrame(distances)


def diagram_distances(one: Floats, other: Floats) -> dict[str, float]:
    """Return the bottleneck and the 1-Wasserstein distance of two persistence diagrams."""
    return {
        "bottleneck": persistence.bottleneck(one, other),
        "wasserstein": persistence.wasserstein(one, other),
    }


@tabled
def singular_values(run: Trajectory, *, vectors: Sequence[str]) -> Iterator[Rows]:
    """Return the leading singular values of the centred sentence vectors at each layer and snapshot, with the twin.

    Columns snapshot, step, best, vectors, layer, component (1 the largest), value (over the largest value, 0 … 1),
    share of variance, cumulative share, n, d, degenerate. A degenerate cell (`isoscope.states.cloud.fault`) has one row
    without values. Uses the kinds of `vectors` that the run has; empty if it has none.
    """
    for snapshot, kind, layer in run.places(vectors):
        points = run.arrays(snapshot).layer(kind, layer).astype(np.float64)
        degenerate = fault(points, sentences=True) is not None
        squares = np.array([np.nan]) if degenerate else spectrum(points)
        share = squares / squares.sum()
        every = {"value": np.sqrt(squares / squares[0]), "share": share, "cumulative": np.cumsum(share)}
        found = {"component": np.arange(1, len(share) + 1), **every, "degenerate": degenerate}
        table = pd.DataFrame({**snapshot.who, "vectors": kind, "layer": layer, **found})
        yield table[:LEADING].assign(n=len(points), d=points.shape[1])


@tabled
def rank_table(run: Trajectory) -> Iterator[Rows]:
    """Score the trained head on each snapshot's rebuilt sentences.

    Columns snapshot, step, best, components, k, accuracy, macro_f1 (both against the labels), explained (share of
    variance in these components), n. `components`: `kept`, the k leading components; `dropped`, all but these, where k
    = 0 is the whole model; `alone`, the k-th component alone. Empty if the head is not BERT's pooler and classifier, or
    if the sentences have no classes.
    """
    labels = run.probe["label"].to_numpy()
    for who, explained, said, classes in _decisions(run):
        yield {
            **who,
            "accuracy": float((said == labels).mean()),
            "macro_f1": float(f1_score(labels, said, average="macro", labels=range(classes), zero_division=0.0)),
            "explained": explained,
            "n": len(labels),
        }


@tabled
def predicted_table(run: Trajectory) -> Iterator[Rows]:
    """Return the class shares that the trained head predicts on each snapshot's rebuilt sentences.

    Columns snapshot, step, best, components, k (as in `rank_table`), class, predicted and actual (shares of the
    sentences of the class), n. Empty whenever `rank_table` is.
    """
    labels = run.probe["label"].to_numpy()
    for who, _, said, classes in _decisions(run):
        shares = {
            name: np.bincount(of, minlength=classes) / len(labels)
            for name, of in (("predicted", said), ("actual", labels))
        }
        yield pd.DataFrame({**who, "class": np.arange(classes), **shares, "n": len(labels)})


def _decisions(run: Trajectory) -> Iterator[tuple[dict[str, Any], float, Ints, int]]:
    """Yield identity and components, their share of variance, predicted class of each sentence, number of classes."""
    labels = run.probe["label"].to_numpy()
    for snapshot in run.trained if labels.min() >= 0 else ():
        arrays = run.arrays(snapshot)
        if {"head_classifier", "first"} <= arrays.names:
            for components, k, explained, cloud in _rebuilt(arrays):
                said = _logits(arrays, cloud)
                yield {**snapshot.who, "components": components, "k": k}, explained, said.argmax(1), said.shape[1]


def _rebuilt(arrays: Arrays) -> Iterator[tuple[str, int, float, Floats]]:
    """Yield the last layer's [CLS] rebuilt from components: which, k, their share of variance, the points `[n, d]`."""
    points = arrays.last("first").astype(np.float64)
    mean = points.mean(0)
    left, values, right = np.linalg.svd(points - mean, full_matrices=False)
    share = values**2 / max(float((values**2).sum()), 1e-300)
    yield "dropped", 0, 0.0, points
    for k in (k for k in KEPT if k < len(values)):
        top = (left[:, :k] * values[:k]) @ right[:k]
        yield "kept", k, float(share[:k].sum()), mean + top
        yield "dropped", k, float(share[:k].sum()), points - top
    for k in (k for k in ALONE if k < len(values)):
        yield "alone", k, float(share[k - 1]), mean + np.outer(left[:, k - 1] * values[k - 1], right[k - 1])


def _logits(arrays: Arrays, points: Floats) -> Floats:
    """BERT's head: `C tanh(P x + p) + c`."""
    pooled = np.tanh(points @ arrays.whole("head_pooler").T + arrays.whole("head_pooler_bias"))
    found = pooled @ arrays.whole("head_classifier").T + arrays.whole("head_classifier_bias")
    return np.asarray(found, dtype=np.float64)
