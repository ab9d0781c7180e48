"""The files of a task: its text from the source, as a parquet file per split, with a manifest and a tokenizer."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from isoscope.base.entry import Entry
from isoscope.base.errors import InputError, said
from isoscope.base.registry import DATASETS
from isoscope.data import byte_pairs, embedded, files, hub, manifest, ngrams, tokens
from isoscope.data.corpus import PAIR, SINGLE, SPLITS, TARGETS, Corpus, build, target_of, text_columns, texts

_UNCUT = 1_000_000  # tokens; lengths in the manifest are those before truncation
_TRAIN = {"wordpiece": tokens.train_wordpiece, "bpe": byte_pairs.train_bpe, "joint_bpe": byte_pairs.train_bpe}


def read(source: Mapping[str, Any], folder: Path) -> Corpus:
    """Return the text of a section `data.source`; local files are below `folder`.

    A local source is named without its folders, which differ between machines. Raises `InputError` for bad data.
    """
    options: dict[str, Any] = {**source}
    kind = options.pop("kind")
    if kind == "embedded":
        return embedded.generate(**options)
    if kind not in ("local", "hub"):
        return _from_plugin(DATASETS[kind], options)
    splits = options.pop("splits")
    options["columns"] = columns = {ours: name for ours, name in options["columns"].items() if name is not None}
    if kind == "local":
        path = folder / options.pop("path")
        found = hub.Found(files.read_splits(path, columns=columns, splits=splits), path.name, None)
    else:
        place = {option: options.pop(option) for option in ("name", "config", "revision")}
        found = hub.find_splits(**place, columns=columns, splits=splits)
    return build(found.raw, source=f"{kind}:{found.name}", revision=found.commit, **options)


def write(corpus: Corpus, vocabulary: Iterable[Corpus], options: Mapping[str, Any], folder: Path) -> None:
    """Write a parquet file per split, `manifest.json` and `tokenizer/` to a folder. Equal corpora give equal bytes.

    `vocabulary`: corpora whose train splits the tokenizer is trained on; `options`: its section `data.tokenizer`.
    """
    tokenizer = _TRAIN[options["kind"]](
        [text for one in vocabulary for row in texts(one.splits["train"]) for text in row],
        folder / "tokenizer",
        vocab_size=options["vocab_size"],
        lowercase=options["lowercase"],
    )
    encoded = {name: tokens.encode(tokenizer, table, max_length=_UNCUT) for name, table in corpus.splits.items()}
    lengths = {name: one.lengths.tolist() for name, one in encoded.items()}
    manifest.write(corpus, folder, lengths=lengths, models=_language_models(corpus, tokenizer))


def _language_models(corpus: Corpus, tokenizer: tokens.WordPieces) -> ngrams.Baselines | None:
    """Return the baselines of a text task; None for a task with a target, whose baselines predict it."""
    if target_of(corpus.splits["train"]):
        return None
    ids = {
        split: {
            column: tokens.encode_column(tokenizer, table, column, max_length=_UNCUT).ids
            for column in text_columns(table)
        }
        for split, table in corpus.splits.items()
    }
    return ngrams.baselines(ids, vocab_size=tokenizer.vocab_size)


def _from_plugin(plugin: Entry, options: dict[str, Any]) -> Corpus:
    """Return the corpus of a plugin's data set, which returns rows per split."""
    rows = plugin.factory(**options)
    try:
        raw = {
            name: files.Raw(f"plugin {plugin.name}: {name}", pa.Table.from_pylist(list(rows[name]))) for name in SPLITS
        }
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError, pa.ArrowException) as error:
        raise InputError(
            f"{plugin.title}: expected {{'train': rows, 'validation': rows, 'test': rows}}, where a row is a "
            f"mapping such as {{'sentence': 'fine', 'label': 1}}: {said(error)}"
        ) from error
    single_or_pair = PAIR if "sentence1" in raw["train"].table.column_names else SINGLE
    targets = [name for name in TARGETS if name in raw["train"].table.column_names]
    columns = {name: name for name in (*single_or_pair, *targets)}
    corpus = build(raw, columns=columns, held_out=0.0, seed=0, source=f"plugin:{plugin.name}", licence="unknown")
    return corpus._replace(facts={"options": options})
