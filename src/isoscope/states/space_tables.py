"""Tables of several models' states of the same words."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from isoscope.base.workers import Over
from isoscope.data.arrays import Flags
from isoscope.data.parquet import stacked
from isoscope.data.word_table import UNTAGGED, WordTable
from isoscope.states.choices import SpaceSettings
from isoscope.states.compared_items import ComparedItems, compared_items, sentence_means
from isoscope.states.contextuality_tables import Layer, Words, contextuality, of_sentences
from isoscope.states.mapped_tables import maps_table
from isoscope.states.similarity_tables import check_complete, similarity_table
from isoscope.states.word_space import Space, joined


class Named(NamedTuple):
    """A space, its model, the seed of its training if known, and whether it is the model's twin of random weights.

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


def tables(
    spaces: Mapping[str, Named],
    pairs: Sequence[tuple[str, str]],
    table: WordTable,
    settings: SpaceSettings,
    over: Over,
) -> dict[str, pd.DataFrame]:
    """Return the tables of spaces of one word table, by name.

    - `contextuality`, `words`, `tagged_words`, `pairs`: see `states.contextuality_tables`; also space, model, seed,
      twin, layer, of (words, sentences) and, of contextuality, the intervals' confidence.
      None of them has a linked space: it has states of other words than the table's.
    - those of `of_pairs`.

    Of sentences only AvgSim is known. `over`: maps over layers and pairs, in this process or others. Raises
    `InputError` as `of_pairs`.
    """
    kept = joined(table, [one.space for one in spaces.values()])
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
    return stacked(found) | of_pairs(spaces, pairs, table, settings, over)


def of_pairs(
    spaces: Mapping[str, Named],
    pairs: Sequence[tuple[str, str]],
    table: WordTable,
    settings: SpaceSettings,
    over: Over,
) -> dict[str, pd.DataFrame]:
    """Return the tables of pairs of spaces of one word table, by name; arguments as those of `tables`.

    - `similarity`, `maps`: of these pairs, see `states.similarity_tables` and `states.mapped_tables`; also one, model,
      …, other, other_model, ….
    - `counts`: words and sentences of the table, of all spaces, and of the similarities.

    Raises `InputError` if a space does not belong to the table, and if too many cells have no null or interval.
    """
    kept = joined(table, [one.space for one in spaces.values()])
    on = compared_items(table, kept, probe=settings.probe, seed=settings.seed)
    couples = [(spaces[one].space, spaces[other].space) for one, other in pairs]
    made = over(partial(_pair, on, settings), couples, "pairs")
    about = [
        {"one": one, "other": other, **spaces[one].columns(), **spaces[other].columns("other_")} for one, other in pairs
    ]
    found = stacked(
        {name: rows.assign(**own) for name, rows in of_pair.items()} for own, of_pair in zip(about, made, strict=True)
    )
    check_complete(found["similarity"])
    sentences = len(np.unique(table.sentences[kept]))
    counts = [
        {"words": "in the table", "occurrences": len(kept), "sentences": len(table.texts)},
        {"words": "in all models", "occurrences": int(kept.sum()), "sentences": sentences},
        *(
            {"words": f"compared: {one.of}", "occurrences": int(one.lengths.sum()), "sentences": len(one.lengths)}
            for one in on
        ),
        {"words": "left out: of sentences of a rare length", "occurrences": None, "sentences": on[0].left_out},
    ]
    return found | {"counts": pd.DataFrame(counts)}


def _layer(table: WordTable, kept: Flags, settings: SpaceSettings, which: tuple[Space, int]) -> Layer:
    """Return what is known of a layer of a space: `contextuality`, or `of_sentences`."""
    space, number = which
    points, sentence = space.layer(number, kept), np.unique(table.sentences[kept], return_inverse=True)[1]
    options: dict[str, Any] = {name: getattr(settings, name) for name in ("draws", "confidence", "seed")}
    options["pairs"] = settings.histogram
    if settings.probe == "sentences":
        return of_sentences(sentence_means(points, np.bincount(sentence)), **options)
    rows = table.rows[kept]
    form, tag = (np.unique(rows[name].to_numpy(), return_inverse=True)[1] for name in ("form", "tag"))
    tagged = tag if (rows["tag"] != UNTAGGED).any() else None
    return contextuality(points, Words(sentence, form, rows["frequency"].to_numpy(np.int64), tagged), **options)


def _pair(on: Sequence[ComparedItems], settings: SpaceSettings, which: tuple[Space, Space]) -> dict[str, pd.DataFrame]:
    """Return the similarities of a pair of spaces, and how near maps bring their last layers."""
    given: dict[str, Any] = {"seed": settings.seed, "confidence": settings.confidence}
    maps = pd.concat([maps_table(*which, one, **given) for one in on], ignore_index=True)
    return {"similarity": similarity_table(*which, on, settings), "maps": maps}
