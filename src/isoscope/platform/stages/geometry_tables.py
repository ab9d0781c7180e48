"""Hidden states and tables of `isoscope geometry`: of each checkpoint and its random twin, cached by content."""

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from isoscope import plugins
from isoscope.base.atomic_files import kept, write_text
from isoscope.base.code_closure import code_version
from isoscope.base.errors import InputError, RunError
from isoscope.data import probe, tokens
from isoscope.data.batches import Indices
from isoscope.data.checkpoints import checkpoint_digest
from isoscope.data.parquet import write_parquet
from isoscope.data.plain import Texts
from isoscope.states.catalogue import Asked, Tables, analysed, usual_vectors
from isoscope.states.choices import Settings
from isoscope.states.measures import measured
from isoscope.states.sentence_tables import aligned
from isoscope.states.trajectory import RANDOM, Snapshot, Trajectory, extract_snapshots

OWN = "checkpoint"
"""Name of the snapshot that is the checkpoint itself."""
BLOCK = 40
"""How many sentences keep the embedding parts of their tokens."""
STATES = ("sentences", "words", "max_length", "seed", "precision", "device")
ATTENTION = ("sentences", "attended", "max_length", "seed", "device")
"""Settings that the pass for hidden states and the pass for attention depend on."""
NOTE = "note.json"
NEIGHBOURS, DIAGRAM = 5, 120
"""Number of nearest tokens, and of points in a persistence diagram, as in params.yaml: a page has no params.yaml."""
PARTS = {"probing": ("probing", "learning", "baselines")}
"""Analyses that consist of several in `inside.catalogue`."""
LACKING = {
    "attention": "the model returns none",
    "embedding": "the model has no word embedding with a known name",
    "spectrum": "the model has no word embedding with a known name",
    "topology": "all its vectors are equal",
}
"""Reason why an analysis has no table."""


class Checkpoint(NamedTuple):
    """A checkpoint: short name, folder, digest, and the path or hub name as given."""

    name: str
    folder: Path
    digest: str
    given: str = ""

    def check_unchanged(self) -> None:
        """Raise `RunError` if the folder does not hold what the digest names: it changed while it was read."""
        if checkpoint_digest(self.folder) != self.digest:
            raise RunError(f"{self.given or self.folder}: has changed while it was read; run the same command again")


def hidden_states(one: Checkpoint, texts: Texts, settings: Settings, cache: Path, *, attended: bool) -> Trajectory:
    """Return the hidden states of a checkpoint and its twin, or their attention (`attended`); extract if not cached.

    The trajectory's `facts` are those of `extract_model`.
    """
    chosen = {name: getattr(settings, name) for name in (ATTENTION if attended else STATES)}
    about = {"weights": one.digest, "texts": texts.digest, "code": code_version("geometry"), **chosen}
    return Trajectory(kept(cache / "states", about, partial(_extract, one, texts, settings, attended), "states"))


def _extract(one: Checkpoint, texts: Texts, settings: Settings, attended: bool, folder: Path) -> None:
    import torch  # takes seconds to import; not needed if everything is cached

    from isoscope.models.build import check_device, warn_of_emulation
    from isoscope.models.encoder import TWIN_SEED, load_encoder, random_encoder

    check_device(settings.device, key="--device", cure="cpu")
    torch.set_num_threads(settings.threads)
    warn_of_emulation(settings.precision, device=settings.device, key="--precision")
    extract_model(
        folder,
        load_encoder(one.folder).to(settings.device),
        lambda: random_encoder(one.folder, seed=TWIN_SEED + settings.seed).to(settings.device),
        tokens.load(one.folder, padded=False),
        texts.table,
        probe.draw_rows(texts.table, [], share=1.0, most=settings.sentences, seed=settings.seed),
        settings,
        attended=attended,
        title=f"{one.name}: {'attention' if attended else 'hidden states'}",
    )
    one.check_unchanged()


def extract_model(
    folder: Path,
    model: Any,
    twin: Callable[[], Any] | None,
    tokenizer: tokens.WordPieces,
    table: Any,
    rows: Indices,
    settings: Settings,
    *,
    name: str = OWN,
    attended: bool = False,
    title: str = "hidden states",
) -> None:
    """Write the hidden states of a model in memory, or its attention (`attended`), over `rows` of a table of sentences.

    `twin` makes the same architecture with random weights; None: no twin. Facts in addition to those of every
    extraction:

    - `causal`: whether the model is causal.
    - `cls`: whether sentences begin with a special token.
    - `pieces`: readable text of each token id of the sentences whose embedding parts are kept.
    - `lacking`: why there is no attention.
    """
    from isoscope.models.encoder import causal, positions
    from isoscope.states import hidden_states as passes

    chosen = probe.probe_set(
        tokenizer,
        table,
        rows,
        max_length=min(settings.max_length, positions(model)),
        words=settings.words,
        block=BLOCK,
        attended=settings.attended,
        seed=settings.seed,
    )
    backend, ids = tokenizer.backend, np.unique(np.concatenate([chosen.encoded.ids[row] for row in chosen.block]))
    facts: dict[str, Any] = {
        "causal": causal(model, max(chosen.encoded.ids, key=len)),
        "cls": all(bool(special[0]) for special in chosen.special),
        "pieces": {
            str(one): backend.decode([one], skip_special_tokens=False).strip() or str(backend.id_to_token(one))
            for one in ids.tolist()
        },
    }
    given = {"pad_id": tokenizer.pad_id, "batch_size": settings.batch_size}

    def arrays(snapshot: Snapshot) -> passes.Arrays:
        current = twin() if twin and snapshot.name == RANDOM else model
        if not attended:
            return passes.hidden_states(current, chosen, bf16=settings.precision == "bf16", **given)
        try:
            return passes.attention(current, chosen, **given)
        except InputError as error:
            facts["lacking"] = str(error)
            return {}

    snapshots = [Snapshot(name, 0, None, True, ""), *([Snapshot(RANDOM, None, None, False, "")] if twin else [])]
    extract_snapshots(folder, chosen, snapshots, arrays, key="geometry", facts=facts, title=title)


def _measures(run: Trajectory, settings: Settings, cache: Path, title: str) -> tuple[Tables, str | None]:
    """Make the table `geometry` as in `inside.measures`; the rows of each measure are cached separately."""
    vectors = asked_vectors(run, settings)
    sampled = {name: getattr(settings, name) for name in ("subsample", "draws", "confidence", "seed")}
    parts: list[pd.DataFrame] = []

    def make(name: str) -> Tables:
        return {"geometry": measured(run, [name], vectors, title=f"{title}: {name}", **sampled)}

    for name in settings.measures:
        about = {"states": run.folder.name, "measure": name, "code": code_of(name), "vectors": vectors, **sampled}
        parts += _kept(cache, about, partial(make, name))[0].values()
    if not parts:
        raise InputError(
            f"--measure {', '.join(settings.measures)}: nothing to measure in {', '.join(vectors)}; "
            "the measure classes needs --labels; classes and shape need sentence vectors, not words"
        )
    return {"geometry": pd.concat(parts, ignore_index=True)}, None


def analysis(name: str, run: Trajectory, settings: Settings, cache: Path, title: str) -> tuple[Tables, str | None]:
    """Make the tables of `measures` or of an analysis of `inside.catalogue`; return them, and why there are none."""
    if name == "measures":
        return _measures(run, settings, cache, title)
    given = (settings.seed, settings.folds, settings.confidence, NEIGHBOURS, DIAGRAM)
    asked = Asked(sentence_vectors(run, settings), *given, alignment="sign")
    about = {"states": run.folder.name, "analysis": name, "code": code_version("geometry"), "settings": asked}
    parts = PARTS.get(name, (name,))
    tables, note = _kept(
        cache, about, lambda: {k: one for part in parts for k, one in analysed(part, run, asked).items()}
    )
    return tables, None if tables else note or run.facts.get("lacking") or LACKING[name]


def planes(runs: Mapping[str, Trajectory], settings: Settings, cache: Path) -> Tables:
    """Make the tables of principal planes. Checkpoints of the same width and depth are aligned to the first of them.

    `planes` and `frames` as in `inside.sentence_tables.aligned`, with `vectors`, `checkpoint`, `group` (number from 0
    of the checkpoints aligned together) and, for points, `label`.
    """
    groups: dict[Any, dict[str, Trajectory]] = {}
    for name, run in runs.items():
        for kind in sentence_vectors(run, settings):
            groups.setdefault((kind, run.arrays(run.best).shape(kind)), {})[name] = run
    found: dict[str, list[pd.DataFrame]] = {"planes": [], "frames": []}
    for number, ((kind, _), group) in enumerate(groups.items()):
        about = {
            "planes": [[name, run.folder.name] for name, run in group.items()],
            "code": code_version("geometry"),
            "settings": [settings.alignment, kind],
        }
        for name, table in _kept(cache, about, partial(_planes, group, kind, settings.alignment))[0].items():
            found[name].append(table.assign(vectors=kind, group=number))
    return {name: pd.concat(parts, ignore_index=True) for name, parts in found.items()}


def _planes(runs: Mapping[str, Trajectory], kind: str, alignment: Any) -> Tables:
    frames = {Snapshot(name, None, None, False, ""): run.arrays(run.best) for name, run in runs.items()}
    labels = next(iter(runs.values())).probe["label"].to_numpy()
    points, shown = aligned(frames, alignment, reference=next(iter(frames)), vectors=kind)
    found = {"planes": points.assign(label=labels[points["sentence"]]), "frames": shown}
    return {name: table.rename(columns={"snapshot": "checkpoint"}) for name, table in found.items()}


def asked_vectors(run: Trajectory, settings: Settings) -> tuple[str, ...]:
    """Return the kinds of representation to analyse: the requested kinds, or the default kinds.

    A causal model never has `first`.
    """
    asked = tuple(kind for kind in settings.vectors if kind != "first" or not run.facts["causal"])
    return asked or usual_vectors(causal=run.facts["causal"], cls=run.facts["cls"])


def sentence_vectors(run: Trajectory, settings: Settings) -> tuple[str, ...]:
    """Return the requested kinds of sentence vector; the default kinds if only words are requested."""
    asked, usual = (
        tuple(kind for kind in asked_vectors(run, one) if kind != "words")
        for one in (settings, settings._replace(vectors=()))
    )
    return asked or usual


def code_of(name: str) -> str:
    """Return the version of the code that a measure's values depend on; for a plugin also the digest of its file."""
    one = plugins.MEASURES.get(name)
    return code_version("geometry") + (plugins.digest(one.file) if one else "")


def _kept(cache: Path, about: Mapping[str, Any], make: Callable[[], Tables]) -> tuple[Tables, str | None]:
    """Return the tables of `make`, cached by what they depend on, and a note: the text of an `InputError`, or None."""

    def fill(folder: Path) -> None:
        tables, note = {}, None
        try:
            tables = make()
        except InputError as error:
            note = str(error)
        write_text(folder / NOTE, json.dumps(note), "table")
        for name, table in tables.items():
            write_parquet(table, folder / f"{name}.parquet")

    folder = kept(cache / "tables", about, fill, "table")
    stored = {path.stem: pd.read_parquet(path) for path in sorted(folder.glob("*.parquet"))}
    whole = ("step", "epoch")  # parquet does not distinguish whole numbers with gaps from floats
    found = {
        name: table.astype({column: "Int64" for column in whole if column in table}) for name, table in stored.items()
    }
    return found, json.loads((folder / NOTE).read_text())
