"""Tables of several models' states of the same words."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from isoscope.base.errors import InputError
from isoscope.base.workers import Over
from isoscope.data.arrays import Flags
from isoscope.data.word_links import Linked
from isoscope.data.word_table import UNTAGGED, WordTable
from isoscope.geometry.linear_maps import LinearMap, best_ridge, error, identity, procrustes, r2_by_dimension, retrieval
from isoscope.geometry.moments import Floats, centre
from isoscope.platform.statistics.delete_a_group import delete_a_group
from isoscope.states.choices import SpaceSettings
from isoscope.states.compared_items import ComparedItems, compared_items, sentence_means
from isoscope.states.contextuality_tables import Layer, Words, contextuality
from isoscope.states.similarity_tables import check_complete, similarity_table
from isoscope.states.trajectory import stacked
from isoscope.states.word_space import Space, joined


class Named(NamedTuple):
    """A space, its model, the seed of its training if known, and whether it is the model's random-weights control.

    `linked`: its states are those of another text's words, which are linked to the table's.
    """

    space: Space
    model: str
    seed: int | None
    twin: bool
    linked: bool = False

    def columns(self, prefix: str = "") -> dict[str, Any]:
        """Return the columns of a table that say whose space it is."""
        return {f"{prefix}model": self.model, f"{prefix}seed": self.seed, f"{prefix}twin": self.twin}


class Compared(NamedTuple):
    """Spaces of a word table by name, the pairs of names to compare, and the linked words of another text, if any."""

    table: WordTable
    spaces: Mapping[str, Named]
    pairs: Sequence[tuple[str, str]]
    linked: Linked | None = None

    @property
    def kept(self) -> Flags:
        """Which words of the table all spaces have. Raises `InputError` if a space does not belong to the table."""
        return joined(self.table, [one.space for one in self.spaces.values()])


def tables(compared: Compared, settings: SpaceSettings, over: Over) -> dict[str, pd.DataFrame]:
    """Return the tables of spaces of one word table, by name.

    - `contextuality`, `words`, `tagged_words`, `pairs`: see `states.contextuality_tables`; also space, model, seed,
      twin, layer, of (words, sentences) and, of contextuality, the intervals' confidence.
      None of them has a linked space: it has states of other words than the table's.
    - those of `of_pairs`.

    Of sentences only AvgSim is known. `over`: maps over layers and pairs, in this process or others. Raises
    `InputError` as `of_pairs`.
    """
    table, spaces, kept = compared.table, compared.spaces, compared.kept
    forms, tags = (np.unique(table.rows[name].to_numpy()[kept]) for name in ("form", "tag"))
    layers = [(name, number) for name, one in spaces.items() if not one.linked for number in one.space.layers]
    work = [(spaces[name].space, number) for name, number in layers]
    made = over(partial(_layer, table, kept, settings), work, "layers")
    found = []
    for (name, number), layer in zip(layers, made, strict=True):
        about = {"space": name, **spaces[name].columns(), "layer": number, "of": settings.probe}
        named = {"form": forms[layer.tagged["form"]], "tag": tags[layer.tagged["tag"]]}
        found.append(
            {
                "contextuality": layer.measures.assign(**about, confidence=settings.confidence),
                "words": layer.words.assign(form=forms[layer.words["form"]], **about),
                "tagged_words": layer.tagged.assign(**named, **about),
                "pairs": layer.pairs.assign(**about),
            }
        )
    return stacked(found) | of_pairs(compared, settings, over)


def of_pairs(compared: Compared, settings: SpaceSettings, over: Over) -> dict[str, pd.DataFrame]:
    """Return the tables of pairs of spaces of one word table, by name; arguments as those of `tables`.

    - `similarity`, `maps`: of these pairs, see `states.similarity_tables` and `maps_table`; also one, model,
      …, other, other_model, ….
    - `counts`: words and sentences of the table, of all spaces, and of the similarities.

    Raises `InputError` if a space does not belong to the table, and if too many cells have no null or interval.
    """
    table, spaces, kept = compared.table, compared.spaces, compared.kept
    on = compared_items(table, kept, probe=settings.probe, seed=settings.seed)
    couples = [(spaces[one].space, spaces[other].space) for one, other in compared.pairs]
    made = over(partial(_pair, on, settings), couples, "pairs")
    about = [
        {"one": one, "other": other, **spaces[one].columns(), **spaces[other].columns("other_")}
        for one, other in compared.pairs
    ]
    found = stacked(
        {name: rows.assign(**own) for name, rows in of_pair.items()} for own, of_pair in zip(about, made, strict=True)
    )
    check_complete(found["similarity"])
    sentences = len(np.unique(table.sentences[kept]))
    counts = [
        {
            "words": f"in the table, split by {table.by}" if table.by else "in the table",
            "occurrences": len(kept),
            "sentences": len(table.texts),
        },
        {"words": "in all models", "occurrences": int(kept.sum()), "sentences": sentences},
        *(
            {"words": f"compared: {one.of}", "occurrences": int(one.lengths.sum()), "sentences": len(one.lengths)}
            for one in on
        ),
        {"words": "left out: of sentences of a rare length", "occurrences": None, "sentences": on[0].left_out},
    ]
    return found | {"counts": pd.DataFrame(counts)}


def _layer(table: WordTable, kept: Flags, settings: SpaceSettings, which: tuple[Space, int]) -> Layer:
    """Return the `contextuality` of a layer of a space."""
    space, number = which
    points, sentence = space.layer(number, kept), np.unique(table.sentences[kept], return_inverse=True)[1]
    options: dict[str, Any] = {name: getattr(settings, name) for name in ("draws", "confidence", "seed")}
    rows = table.rows[kept]
    form, tag = (np.unique(rows[name].to_numpy(), return_inverse=True)[1] for name in ("form", "tag"))
    tagged = tag if (rows["tag"] != UNTAGGED).any() else None
    words = Words(sentence, form, rows["frequency"].to_numpy(np.int64), tagged)
    if settings.probe == "sentences":
        points, every = sentence_means(points, np.bincount(sentence)), np.unique(sentence)
        words = Words(every, every, every)
    return contextuality(points, words, pairs=settings.histogram, **options)


def _pair(on: Sequence[ComparedItems], settings: SpaceSettings, which: tuple[Space, Space]) -> dict[str, pd.DataFrame]:
    """Return the similarities of a pair of spaces, and how near maps bring their last layers."""
    given: dict[str, Any] = {"seed": settings.seed, "confidence": settings.confidence}
    maps = pd.concat([maps_table(*which, one, **given) for one in on], ignore_index=True)
    return {"similarity": similarity_table(*which, on, settings), "maps": maps}


FITTED, CHOSEN = 12, 16
"""Of the 20 groups of sentences, the first 12 fit the maps, the next 4 choose ridge's strength."""
STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
MOST, GROUPS = 1000, 20
"""Items of the test, each of another sentence; groups of them, for the jackknife."""
NOTHING = ("error", "r2", "low", "high", "null", "retrieval_forward", "retrieval_back", "cosine_forward", "cosine_back")


def maps_table(one: Space, other: Space, on: ComparedItems, *, seed: int, confidence: float) -> pd.DataFrame:
    """Return how near each map brings the last layer of a space to that of another, in both directions.

    Without their form's mean, words are less its mean in their own part: fit, choice or test. So a word of the test is
    not known from one of the fit; words alone in their part, which would be 0, are left out.

    Columns: of (the kind of items), back (whether the map leads from `other` to `one`), map (none, between equal
    widths; procrustes; ridge), strength (of ridge), error (squared, per dimension), r2 (mean over dimensions), low and
    high (of r2: a jackknife over groups of the test's sentences), null (r2 of a map that was fitted with sentences
    exchanged for others of their length), retrieval_forward, retrieval_back (CSLS), cosine_forward, cosine_back, n
    (items of the test), n_fitted, why (a cell is empty).
    """
    parts = np.digitize(on.groups, (FITTED, CHOSEN))
    x, y = (on.points(space, space.layers[-1], parts) for space in (one, other))
    fits, chooses, tests = ((parts == part) & on.varying(parts) for part in range(3))
    tested = on.sample(len(on.lengths), seed=seed)
    tested = tested[tests[tested]][:MOST]
    exchanged = on.places(seed=seed, draw=0)
    rows: list[dict[str, Any]] = []
    for back, (source, target) in {False: (x, y), True: (y, x)}.items():
        about = {"of": on.of, "back": back, "n": len(tested), "n_fitted": int(fits.sum())}
        try:
            if not (centre(source).any() and centre(target).any()):
                raise InputError("all points are one")
            if len(tested) < GROUPS:
                raise InputError(f"the test has words of {len(tested)} sentences; expected at least {GROUPS}")
            maps, strength = _maps(source, target, fits, chooses)
            null, _ = _maps(source, target[exchanged], fits, chooses)
            given = source[tested], target[tested], confidence
            for name, found in maps.items():
                row = about | {"map": name, "strength": strength if name == "ridge" else None}
                rows.append(row | _measured(found, None if name == "none" else null[name], *given))
        except InputError as reason:  # a layer without variance
            rows.append(about | dict.fromkeys(NOTHING) | {"map": "procrustes", "strength": None, "why": str(reason)})
    return pd.DataFrame(rows).astype(dict.fromkeys((*NOTHING, "strength"), float))


def _maps(x: Floats, y: Floats, fitted: Flags, chosen: Flags) -> tuple[dict[str, LinearMap], float]:
    """Return the maps, fitted on some items, and ridge's strength, which others choose."""
    strength, best = best_ridge((x[fitted], y[fitted]), (x[chosen], y[chosen]), STRENGTHS)
    none = {"none": identity(x.shape[1])} if x.shape[1] == y.shape[1] else {}
    return none | {"procrustes": procrustes(x[fitted], y[fitted]), "ridge": best}, strength


def _measured(one: LinearMap, null: LinearMap | None, x: Floats, y: Floats, confidence: float) -> dict[str, Any]:
    found, group = one.of(x), np.arange(len(x)) % GROUPS
    without = np.array([_r2(found[group != number], y[group != number]) for number in range(GROUPS)])
    low, high = delete_a_group(_r2(found, y), without, confidence=confidence) or (None, None)
    near, plain = retrieval(found, y), retrieval(found, y, neighbours=None)
    return {
        "error": error(found, y),
        "r2": _r2(found, y),
        "low": low,
        "high": high,
        "null": None if null is None else _r2(null.of(x), y),
        "retrieval_forward": near.forward,
        "retrieval_back": near.back,
        "cosine_forward": plain.forward,
        "cosine_back": plain.back,
        "why": None,
    }


def _r2(found: Floats, target: Floats) -> float:
    return float(np.nanmean(r2_by_dimension(found, target)))
