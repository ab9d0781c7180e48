"""Tables of several models' states of the same words."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from isoscope.data.word_table import WordTable
from isoscope.inside.choices import Probe
from isoscope.inside.compared_items import Compared, compared, sentence_means
from isoscope.inside.contextuality_tables import Layer, Words, contextuality, of_sentences
from isoscope.inside.similarity_tables import Sampling, check_complete, similarity_table
from isoscope.inside.space import Space, joined
from isoscope.workers import Over


def tables(
    spaces: Mapping[str, Space],
    pairs: Sequence[tuple[str, str]],
    table: WordTable,
    *,
    probe: Probe,
    draws: int,
    histogram: int,
    sampling: Sampling,
    over: Over,
) -> dict[str, pd.DataFrame]:
    """Return the tables of spaces of one word table, by name.

    - `contextuality`, `words`, `pairs`: see `inside.contextuality_tables`; also space, model, seed, twin (whether it is
      the model's twin with random weights) and layer.
    - `similarity`: of these pairs of spaces, see `inside.similarity_tables`; also one, model, …, other, other_model, ….
    - `counts`: words and sentences of the table, of all spaces, and of the similarities.

    `probe`: words, or sentences, of which only AvgSim is known. `draws` of the bootstrap over sentences; `histogram`:
    pairs of words in a distribution; `over`: maps over layers and pairs, in this process or others. Raises `InputError`
    if a space does not belong to the table, and if too many cells have no null or interval.
    """
    kept = joined(table, [*spaces.values()])
    forms = np.unique(table.rows["form"].to_numpy()[kept])
    options: dict[str, Any] = {"draws": draws, "pairs": histogram, "confidence": sampling.confidence}
    of_layer = partial(_layer, spaces, table, kept, probe, options | {"seed": sampling.seed})
    layers = [(name, number) for name, space in spaces.items() for number in space.layers]
    found: dict[str, list[pd.DataFrame]] = {"contextuality": [], "words": [], "pairs": []}
    for (name, number), layer in zip(layers, over(of_layer, layers, "layers"), strict=True):
        about = {"space": name, **_who(spaces[name]), "layer": number}
        found["contextuality"].append(layer.measures.assign(**about))
        found["words"].append(layer.words.assign(form=forms[layer.words["form"]], **about))
        found["pairs"].append(layer.pairs.assign(**about))
    on = compared(table, kept, probe=probe, seed=sampling.seed)
    of_pair = partial(_pair, spaces, on, sampling)
    similarity = pd.concat(over(of_pair, [*pairs], "pairs of models"), ignore_index=True)
    check_complete(similarity)
    sentences = len(np.unique(table.sentences[kept]))
    counts = [
        {"words": "in the table", "occurrences": len(kept), "sentences": len(table.texts)},
        {"words": "in all models", "occurrences": int(kept.sum()), "sentences": sentences},
        *(
            {"words": f"compared: {one.of}", "occurrences": int(one.lengths.sum()), "sentences": len(one.lengths)}
            for one in on
        ),
    ]
    whole = {name: pd.concat(parts, ignore_index=True) for name, parts in found.items()}
    return whole | {"similarity": similarity, "counts": pd.DataFrame(counts)}


def _layer(
    spaces: Mapping[str, Space],
    table: WordTable,
    kept: npt.NDArray[np.bool_],
    probe: Probe,
    options: Mapping[str, Any],
    which: tuple[str, int],
) -> Layer:
    """Return what is known of a layer of a space: `contextuality`, or `of_sentences`."""
    name, number = which
    points, sentence = spaces[name].layer(number, kept), np.unique(table.sentences[kept], return_inverse=True)[1]
    if probe == "sentences":
        return of_sentences(sentence_means(points, np.bincount(sentence)), **options)
    rows = table.rows[kept]
    form = np.unique(rows["form"].to_numpy(), return_inverse=True)[1]
    return contextuality(points, Words(sentence, form, rows["frequency"].to_numpy(np.int64)), **options)


def _pair(
    spaces: Mapping[str, Space], on: Sequence[Compared], sampling: Sampling, which: tuple[str, str]
) -> pd.DataFrame:
    """Return the similarities of a pair of spaces."""
    one, other = which
    who = {"one": one, "other": other, **_who(spaces[one]), **_who(spaces[other], "other_")}
    return similarity_table(spaces[one], spaces[other], on, sampling).assign(**who)


def _who(space: Space, prefix: str = "") -> dict[str, Any]:
    """Return columns of a space: its model, the seed of its training if known, and whether it is a twin."""
    return {f"{prefix}{name}": space.facts[name] for name in ("model", "seed", "twin")}
