"""Spaces compared: tables and views of several models' states of the same words."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from isoscope.data.word_table import WordTable
from isoscope.inside.choices import Probe
from isoscope.inside.compared_items import compared, sentence_means
from isoscope.inside.contextuality_tables import Words, contextuality, of_sentences
from isoscope.inside.similarity_tables import Sampling, check_complete, similarity_table
from isoscope.inside.space import Space, joined
from isoscope.studies.spaces import by_frequency, by_layer, distributions, similarity_maps
from isoscope.studies.view import View

VIEWS: tuple[View, ...] = (
    *by_layer.VIEWS,
    *by_frequency.VIEWS,
    *distributions.VIEWS,
    *similarity_maps.VIEWS,
)


def tables(
    spaces: Mapping[str, Space],
    pairs: Sequence[tuple[str, str]],
    table: WordTable,
    *,
    probe: Probe,
    draws: int,
    histogram: int,
    sampling: Sampling,
) -> dict[str, pd.DataFrame]:
    """Return the tables of spaces of one word table, by name.

    - `contextuality`, `words`, `pairs`: see `inside.contextuality_tables`; also space, model, seed, twin (whether it is
      the model's twin with random weights) and layer.
    - `similarity`: of these pairs of spaces, see `inside.similarity_tables`; also one, model, …, other, other_model, ….
    - `counts`: words and sentences of the table, of all spaces, and of the similarities.

    `probe`: words, or sentences, of which only AvgSim is known. `draws` of the bootstrap over sentences; `histogram`:
    pairs of words in a distribution. Raises `InputError` if a space does not belong to the table, and if too many cells
    have no null or interval.
    """
    kept = joined(table, [*spaces.values()])
    rows = table.rows[kept]
    forms, form = np.unique(rows["form"].to_numpy(), return_inverse=True)
    sentence = np.unique(table.sentences[kept], return_inverse=True)[1]
    words = Words(sentence, form, rows["frequency"].to_numpy(np.int64))
    options: dict[str, Any] = {
        "draws": draws,
        "pairs": histogram,
        "confidence": sampling.confidence,
        "seed": sampling.seed,
    }
    found: dict[str, list[pd.DataFrame]] = {"contextuality": [], "words": [], "pairs": []}
    for name, space in spaces.items():
        for number in space.layers:
            points = space.layer(number, kept)
            if probe == "sentences":
                layer = of_sentences(sentence_means(points, np.bincount(sentence)), **options)
            else:
                layer = contextuality(points, words, **options)
            about = {"space": name, **_who(space), "layer": number}
            found["contextuality"].append(layer.measures.assign(**about))
            found["words"].append(layer.words.assign(form=forms[layer.words["form"]], **about))
            found["pairs"].append(layer.pairs.assign(**about))
    on = compared(table, kept, probe=probe, seed=sampling.seed)
    similar = []
    for one, other in pairs:
        who = {"one": one, "other": other, **_who(spaces[one]), **_who(spaces[other], "other_")}
        similar.append(similarity_table(spaces[one], spaces[other], on, sampling).assign(**who))
    similarity = pd.concat(similar, ignore_index=True)
    check_complete(similarity)
    counts = [
        {"words": "in the table", "occurrences": len(kept), "sentences": len(table.texts)},
        {"words": "in all models", "occurrences": int(kept.sum()), "sentences": int(sentence.max()) + 1},
        *(
            {"words": f"compared: {one.of}", "occurrences": int(one.lengths.sum()), "sentences": len(one.lengths)}
            for one in on
        ),
    ]
    whole = {name: pd.concat(parts, ignore_index=True) for name, parts in found.items()}
    return whole | {"similarity": similarity, "counts": pd.DataFrame(counts)}


def _who(space: Space, prefix: str = "") -> dict[str, Any]:
    """Return columns of a space: its model, the seed of its training if known, and whether it is a twin."""
    return {f"{prefix}{name}": space.facts[name] for name in ("model", "seed", "twin")}
