"""Stage `prepare@<task>`: turn text from its source into parquet files, a manifest and a tokenizer."""

import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

from isoscope import plugins
from isoscope.base import paths
from isoscope.base.atomic_files import replacing, write_text
from isoscope.base.entry import Entry
from isoscope.base.errors import InputError, said
from isoscope.data import byte_pairs, embedded, files, hub, manifest, ngrams, tokens
from isoscope.data.corpus import PAIR, SINGLE, SPLITS, Corpus, Raw, build, text_columns, texts
from isoscope.platform.config.data import Data, Embedded, Hub, JointTokenizer, Local
from isoscope.platform.runs.prepared import SETTINGS, VOCABULARY, seal
from isoscope.platform.runs.secrets import scrub, scrub_tree

_UNCUT = 1_000_000  # tokens; lengths in the manifest are those before truncation
_TRAIN = {"wordpiece": tokens.train_wordpiece, "bpe": byte_pairs.train_bpe, "joint_bpe": byte_pairs.train_bpe}


def prepare(data: Data, *, task: str, project: paths.Project, output: Path | None = None) -> Path:
    """Write `data/processed/<task>/`: a parquet file per split, `manifest.json`, `settings.json`, `tokenizer/`.

    `settings.json` has all settings that determine the other files, and their hashes; `tokenizer/` is the task's
    tokenizer.
    With `output`, write them there. The folder appears as a whole or not at all. Equal settings give equal bytes.
    Raises `InputError` for bad data.
    """
    corpus = _read(data.source, project.folder)
    for note in corpus.notes:
        print(f"isoscope: {note}", file=sys.stderr)
    read = [corpus]
    if isinstance(data.tokenizer, JointTokenizer):
        read = [_read(source, project.folder) for source in data.tokenizer.sources]
        corpus = corpus._replace(facts=corpus.facts | {VOCABULARY: [one.facts.get("inputs", {}) for one in read]})
    corpus = corpus._replace(licence=scrub(corpus.licence), facts=scrub_tree(corpus.facts))  # the manifest is shared
    target = output or project.folder / paths.processed(task)
    with replacing(target, "data") as fresh:
        tokenizer = _TRAIN[data.tokenizer.kind](
            [text for one in read for row in texts(one.splits["train"]) for text in row],
            fresh / "tokenizer",
            vocab_size=data.tokenizer.vocab_size,
            lowercase=data.tokenizer.lowercase,
        )
        encoded = {name: tokens.encode(tokenizer, table, max_length=_UNCUT) for name, table in corpus.splits.items()}
        lengths = {name: one.lengths.tolist() for name, one in encoded.items()}
        manifest.write(corpus, fresh, lengths=lengths, models=_language_models(corpus, tokenizer))
        write_text(fresh / SETTINGS, seal(fresh, data), "data")
    return target


def _language_models(corpus: Corpus, tokenizer: tokens.WordPieces) -> ngrams.Baselines | None:
    """Return the baselines of a text task; None for a task with labels, whose baselines are classifiers."""
    if corpus.labels:
        return None
    ids = {
        split: {
            column: tokens.encode_column(tokenizer, table, column, max_length=_UNCUT).ids
            for column in text_columns(table)
        }
        for split, table in corpus.splits.items()
    }
    return ngrams.baselines(ids, vocab_size=tokenizer.vocab_size)


def _read(given: Any, folder: Path) -> Corpus:
    match given:
        case Embedded() as source:
            return embedded.generate(source.generator, size=source.size, difficulty=source.difficulty, seed=source.seed)
        case Local() | Hub() as source:
            shared: dict[str, Any] = {
                "columns": source.columns.model_dump(exclude_none=True),
                "splits": source.splits.model_dump(),
                "held_out": source.held_out,
                "seed": source.seed,
                "licence": source.licence,
            }
            if isinstance(source, Local):
                return files.read(folder / source.path, **shared)
            return hub.load(source.name, config=source.config, revision=source.revision, **shared)
        case source:
            return _from_plugin(plugins.DATASETS[source.kind], source.model_dump(exclude={"kind"}))


def _from_plugin(plugin: Entry, options: dict[str, Any]) -> Corpus:
    """Return the corpus of a plugin's data set, which returns rows per split."""
    rows = plugin.factory(**options)
    try:
        raw = {name: Raw(f"plugin {plugin.name}: {name}", pa.Table.from_pylist(list(rows[name]))) for name in SPLITS}
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError, pa.ArrowException) as error:
        raise InputError(
            f"{plugin.title}: expected {{'train': rows, 'validation': rows, 'test': rows}}, where a row is a "
            f"mapping such as {{'sentence': 'fine', 'label': 1}}: {said(error)}"
        ) from error
    single_or_pair = PAIR if "sentence1" in raw["train"].table.column_names else SINGLE
    columns = {name: name for name in (*single_or_pair, "label")}
    corpus = build(raw, columns=columns, held_out=0.0, seed=0, source=f"plugin:{plugin.name}", licence="unknown")
    return corpus._replace(facts={"options": options})
