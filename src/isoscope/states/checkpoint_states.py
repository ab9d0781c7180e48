"""States of a checkpoint, cached by content: a second call extracts only what is new.

A file of its own, so that a changed measure or figure extracts nothing again.
"""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from isoscope.base.atomic_files import kept, sha256
from isoscope.base.code_closure import code_version
from isoscope.base.errors import InputError
from isoscope.data import probe, tokens
from isoscope.data.arrays import Indices
from isoscope.data.corpus import texts as texts_of
from isoscope.data.plain import Texts
from isoscope.data.word_table import WordTable
from isoscope.data.words import bag
from isoscope.states.choices import SENTENCE, Settings, SpaceSettings
from isoscope.states.given_checkpoints import Checkpoint
from isoscope.states.given_vectors import GivenVectors, given_states
from isoscope.states.pairs import PAIRED, EncodedPairs
from isoscope.states.trajectory import RANDOM, Snapshot, Trajectory, extract_snapshots
from isoscope.states.word_space import Space, write_space

TWIN = ", random weights"
STATES = ("sentences", "words", "max_length", "seed", "precision", "device")
ATTENTION = ("sentences", "attended", "max_length", "seed", "device")
WORDS = ("occurrences", "per_sentence", "pooling", "max_length", "seed", "precision", "device")
"""Settings that the pass for hidden states depends on, that for attention, and that for the words of a table."""


def hidden_states(
    one: Checkpoint | GivenVectors,
    texts: Texts,
    settings: Settings,
    cache: Path,
    *,
    attended: bool,
    pairs: Path | None = None,
) -> Trajectory:
    """Return the hidden states of a checkpoint and its twin, or their attention (`attended`); extract if not cached.

    `pairs`: file of scored pairs, whose sentences' vectors are kept, too. The trajectory's `facts` are those of
    `extract_model`. Vectors of a file are read, see `given_states`.
    """
    if isinstance(one, GivenVectors):
        return given_states(one, texts, settings, cache)

    def fill(folder: Path) -> None:
        extract_model(
            folder,
            one.model(settings),
            lambda: one.model(settings, twin=settings.seed),
            tokens.load(one.folder, padded=False),
            texts.table,
            probe.draw_rows(texts.table, [], share=1.0, most=settings.sentences, seed=settings.seed),
            settings,
            attended=attended,
            pairs=pairs,
            called=one.name,
            checkpoint=one.folder,
            title=f"{one.name}: {'attention' if attended else 'hidden states'}",
        )

    made_from = {"texts": texts.digest} | ({"pairs": sha256(pairs)} if pairs else {})
    return Trajectory(_cached(one, settings, ATTENTION if attended else STATES, cache, fill, **made_from))


def word_space(
    one: Checkpoint, twin: int | None, texts: str, table: WordTable, settings: SpaceSettings, cache: Path
) -> Space:
    """Return the space of a checkpoint, or of its twin of this seed; extract it if it is not cached.

    `texts`: digest of the sentences.
    """

    def fill(folder: Path) -> None:
        if not sys.stderr.isatty():
            print(f"{one.name}{TWIN * (twin is not None)}: states", file=sys.stderr, flush=True)
        name = one.name * (twin is None)
        write_space(folder, one.model(settings, twin=twin), one.folder, table, settings, name=name)

    by = {"words": table.by} if table.by else {}
    return Space(_cached(one, settings, WORDS, cache, fill, twin=twin, texts=texts, **by))


def _cached(
    one: Checkpoint,
    settings: Settings | SpaceSettings,
    names: tuple[str, ...],
    cache: Path,
    fill: Callable[[Path], None],
    **made_from: Any,
) -> Path:
    """Return the folder of states that `fill` writes; they depend on the settings `names` and on `made_from`."""

    def extract(folder: Path) -> None:
        from isoscope.states.extract import environment  # torch takes seconds; not needed if everything is cached

        environment(settings, "--{}", cure="cpu")
        fill(folder)
        one.check_unchanged()

    chosen = {name: getattr(settings, name) for name in names}
    about = {"weights": one.digest, **made_from, **chosen, "code": code_version("checkpoint_states")}
    return kept(cache / "states", about, extract, "states")


def page_facts(
    checkpoints: Sequence[Checkpoint | GivenVectors],
    texts: Texts,
    settings: Settings | SpaceSettings,
    looked_at: int,
    about: Sequence[Sequence[Sequence[str]]],
) -> dict[str, Any]:
    """Return what every page of checkpoints says of them and of the sentences, of which `looked_at` were used.

    `about`: of each checkpoint its facts and its warnings, as lines. `words`: what splits sentences without spaces
    between words, see `words.bag`; None for others.
    """
    return {
        "checkpoints": {one.name: one.digest for one in checkpoints},
        "given": {one.name: one.given or one.name for one in checkpoints},
        "vectors": {one.name: one.rows.facts for one in checkpoints if isinstance(one, GivenVectors)},
        "text": texts.digest,
        "origin": texts.origin,
        "left_out": texts.left_out,
        "words": None if texts.numbered else bag(texts.table["sentence"].to_pylist()).by,
        "items": "rows" if texts.numbered else "sentences",
        "groups": texts.groups,
        "sentences": {"looked at": looked_at, "there": len(texts.table)},
        "about": {one.name: list(lines) for one, (lines, _) in zip(checkpoints, about, strict=True)},
        "warnings": [warning for _, warnings in about for warning in warnings],
        "notes": [],
        "truncated": {},
        "settings": settings._asdict(),
    }


def extract_model(
    folder: Path,
    model: Any,
    twin: Callable[[], Any] | None,
    tokenizer: tokens.Tokenizer,
    table: Any,
    rows: Indices,
    settings: Settings,
    *,
    name: str = "checkpoint",
    attended: bool = False,
    pairs: Path | None = None,
    called: str = "",
    checkpoint: Path | None = None,
    title: str = "hidden states",
) -> None:
    """Write the hidden states of a model in memory, or its attention (`attended`), over `rows` of a table of sentences.

    - `pairs`: file of scored pairs, whose sentences' vectors are written, too.
    - `name`: of the model's snapshot; `called`: the model in warnings.
    - `checkpoint`: folder of the model, which may say how sentence vectors are made.
    - `twin` makes the same architecture with random weights; None: no twin.

    Facts in addition to those of every extraction:

    - `about`: facts of the model and its warnings, see `model_facts`; without `attended`.
    - `causal`: whether the model is causal.
    - `sentence`: whether there are sentence vectors; `no_sentence`: why there are none, if the folder has modules.
    - `cls`: whether sentences begin with a special token.
    - `pieces`: readable text of each token id of the sentences whose embedding parts are kept.
    - `lacking`: why there is no attention.
    """
    from isoscope.models.encoder import causal, longest
    from isoscope.states import hidden_states as passes
    from isoscope.states.extract import probe_set
    from isoscope.states.model_facts import model_facts
    from isoscope.states.sentence_vectors import sentence_vectors

    most = longest(model, settings.max_length)
    chosen = probe_set(settings, tokenizer, table, rows, max_length=most)
    backend, ids = tokenizer.backend, np.unique(np.concatenate([chosen.encoded.ids[row] for row in chosen.block]))
    facts: dict[str, Any] = {
        "causal": causal(model, max(chosen.encoded.ids, key=len)),
        "cls": all(bool(special[0]) for special in chosen.special),
        "pieces": {
            str(one): backend.decode([one], skip_special_tokens=False).strip() or str(backend.id_to_token(one))
            for one in ids.tolist()
        },
    }
    head, facts["no_sentence"] = _head(checkpoint)
    facts["sentence"] = head is not None
    if not attended:
        bf16 = settings.precision == "bf16"
        lines, warning = model_facts(model, chosen.encoded, pad_id=tokenizer.pad_id, bf16=bf16, name=called or name)
        lines += [f"sentence vector: {head.said}"] if head else []
        facts["about"] = [lines, [warning] * bool(warning)]
    given: dict[str, Any] = {"pad_id": tokenizer.pad_id, "batch_size": settings.batch_size}
    others = texts_of(table.take(rows)) if pairs else []
    scored = EncodedPairs(pairs, tokenizer, others, max_length=most, seed=settings.seed) if pairs else None

    def arrays(snapshot: Snapshot) -> passes.Arrays:
        current = twin() if twin and snapshot.name == RANDOM else model
        if not attended:
            options = given | {"bf16": settings.precision == "bf16"}
            beside = scored.arrays(current, causal=facts["causal"], **options) if scored else {}
            if head:
                of = {SENTENCE: [" ".join(text) for text in chosen.texts]}
                of |= {PAIRED + SENTENCE: scored.sentences} if scored else {}
                beside |= {
                    kind: sentence_vectors(current, head, tokenizer, sentences, **options)
                    for kind, sentences in of.items()
                }
            return passes.hidden_states(current, chosen, **options) | beside
        try:
            return passes.attention(current, chosen, **given)
        except InputError as error:
            facts["lacking"] = str(error)
            return {}

    snapshots = [Snapshot(name, 0, None, True, ""), *([Snapshot(RANDOM, None, None, False, "")] if twin else [])]
    if scored:
        scored.write(folder)
    extract_snapshots(folder, chosen, snapshots, arrays, key="geometry", facts=facts, title=title)


def _head(checkpoint: Path | None) -> tuple[Any, str | None]:
    """Return how a checkpoint's folder makes sentence vectors, or None and why it cannot."""
    from isoscope.models.sentence_head import sentence_head

    try:
        return sentence_head(checkpoint) if checkpoint else None, None
    except InputError as error:
        return None, str(error)
