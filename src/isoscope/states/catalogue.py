"""The analyses of hidden states by name: each is a function of a run that returns its tables."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pandas as pd

from isoscope import plugins
from isoscope.base.errors import InputError
from isoscope.geometry.planes import Alignment
from isoscope.geometry.probes import FRACTIONS
from isoscope.states import block
from isoscope.states.attention_tables import attention_table
from isoscope.states.measures import measure
from isoscope.states.probing_tables import KINDS, baselines_table, learning_table, probing_table
from isoscope.states.sentence_tables import feature_dynamics, predicted_table, rank_table, singular_values, topology
from isoscope.states.trajectory import Trajectory, stacked

Tables = dict[str, pd.DataFrame]
MAPPED = 24
"""Tokens in a cosine map: few enough to label each."""
MOMENTS = ("chosen", "random")
"""Moments shown for a single checkpoint, which is both its first and its last snapshot."""


class AnalysisOptions(NamedTuple):
    """Options of the analyses.

    - `vectors`: kinds of sentence vectors; `probed`: kinds that probes read, if different.
    - `folds` of probes; `confidence`: coverage of intervals; `neighbours`: number of nearest tokens.
    - `diagram`: points of a persistence diagram.
    - `everywhere`: probing tasks run at every snapshot; `snapshots`: snapshots to probe (None: all); `kinds`: what the
      probed vectors are of, see `probing_tables.KINDS`.
    - `train`: texts and labels of the training split, if any.
    """

    vectors: tuple[str, ...]
    seed: int
    folds: int
    confidence: float
    neighbours: int
    diagram: int
    alignment: Alignment
    probed: tuple[str, ...] = ()
    everywhere: tuple[str, ...] = ("label", "bigram shift")
    snapshots: tuple[str, ...] | None = None
    train: tuple[Sequence[str], Any] | None = None
    kinds: tuple[str, ...] = KINDS

    @property
    def probes(self) -> dict[str, Any]:
        """Return the arguments that probe tables share."""
        return {"vectors": self.probed or self.vectors, "seed": self.seed, "folds": self.folds}


def _planes(run: Trajectory, asked: AnalysisOptions) -> Tables:
    if "first" not in run.arrays(run.best).vectors:
        return {}
    return dict(zip(("planes", "frames"), feature_dynamics(run, asked.alignment), strict=True))


def _topology(run: Trajectory, asked: AnalysisOptions) -> Tables:
    found = []
    for vectors in (kind for kind in asked.vectors if kind in run.arrays(run.best).vectors):
        tables = topology(run, points=asked.diagram, seed=asked.seed, vectors=vectors)
        for name, table in zip(("bars", "distances"), tables, strict=True):
            if len(table):
                kept = table if len(run.trained) > 1 else table[table["moment"].isin(MOMENTS)]
                found.append({name: kept.assign(vectors=vectors)})
    return stacked(found)


ANALYSES: dict[str, Callable[[Trajectory, AnalysisOptions], Tables]] = {
    "probing": lambda run, asked: {
        "probing": probing_table(
            run, **asked.probes, everywhere=asked.everywhere, snapshots=asked.snapshots, kinds=asked.kinds
        )
    },
    "learning": lambda run, asked: {"learning": learning_table(run, **asked.probes)},
    "baselines": lambda run, asked: {
        "baselines": baselines_table(run, *(asked.train or ()), seed=asked.seed, folds=asked.folds)
    },
    "planes": _planes,
    "attention": lambda run, asked: (
        {"attention": attention_table(run)} if "attention_entropy" in run.arrays(run.best).names else {}
    ),
    "embedding": lambda run, asked: {
        "cosines": block.cosine_table(run),
        "token_cosines": block.token_cosine_table(run, most=MAPPED),
        "dimensions": block.dimension_table(run),
        "neighbours": block.neighbour_table(run, k=asked.neighbours, confidence=asked.confidence),
        "decoding": block.decoding_table(run, seed=asked.seed),
    },
    "spectrum": lambda run, asked: {
        "spectrum": block.spectrum_table(run, seed=asked.seed),
        "magnitudes": block.magnitude_table(run),
        "singular_values": singular_values(run, vectors=asked.vectors),
    },
    "fusion": lambda run, asked: {
        "kernel": block.kernel_table(run),
        "weights": block.weight_table(run),
        "gradients": block.gradient_table(run),
        "ranks": rank_table(run),
        "predicted": predicted_table(run),
    },
    "topology": _topology,
}


def analysed(name: str, run: Trajectory, asked: AnalysisOptions) -> Tables:
    """Return the tables of one analysis of `ANALYSES` that have rows."""
    return {one: table for one, table in ANALYSES[name](run, asked).items() if len(table)}


def check_enough(run: Trajectory, *, folds: int, neighbours: int) -> None:
    """Check that a run has enough sentences for its analyses; else raise `InputError` with the option to change.

    Probes need as many sentences as `folds`, and as many as code lengths have blocks. A token needs `neighbours` tokens
    in other sentences.
    """
    least = max(folds, len(FRACTIONS))
    kept = {
        "extraction.share (or extraction.sentences)": len(run.probe),
        "extraction.words": run.words["sentence"].nunique(),
    }
    if run.treebank is not None:
        kept["extraction.treebank.sentences"] = run.treebank["sentence"].nunique()
    for key, sentences in kept.items():
        if sentences < least:
            raise InputError(f"{key}: {sentences} sentences, but probes need {least}; increase it, or use fewer folds")
    inner = run.tokens.loc[~run.tokens["end"], "sentence"]
    if len(inner) and (others := len(inner) - inner.value_counts().max()) < neighbours:
        raise InputError(
            f"extraction.block: a token has {others} in other sentences, fewer than measures.neighbours = {neighbours}"
            "; use more sentences"
        )


def kind_of(name: str) -> str:
    """Return what a measure is of, `points` or `pairs`. Raises `InputError` for an unknown name."""
    measure(name)
    return plugins.MEASURES[name].of
