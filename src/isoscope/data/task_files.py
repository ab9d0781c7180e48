"""The files of a task: its text from the source, as a parquet file per split, with a manifest and a tokenizer."""

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from isoscope.base.entry import Entry
from isoscope.base.errors import InputError, said
from isoscope.base.registry import DATASETS
from isoscope.data import byte_pairs, embedded, files, hub, manifest, ngrams, tokens
from isoscope.data.bert_vocabulary import SPECIAL
from isoscope.data.corpus import GROUP, PAIR, SINGLE, SPLITS, TARGETS, Corpus, build, target_of, text_columns, texts

MOST_UNKNOWN = 0.01
"""Share of unknown tokens above which the command says so."""
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


def write(corpus: Corpus, vocabulary: Iterable[Corpus], options: Mapping[str, Any], folder: Path) -> list[str]:
    """Write a parquet file per split, `manifest.json` and `tokenizer/` to a folder. Equal corpora give equal bytes.

    `vocabulary`: corpora whose train splits the tokenizer is trained on; `options`: its section `data.tokenizer`.
    Returns what there is to say of the tokenizer.
    """
    learned = [text for one in vocabulary for row in texts(one.splits["train"]) for text in row]
    tokenizer = _TRAIN[options["kind"]](
        learned,
        folder / "tokenizer",
        vocab_size=options["vocab_size"],
        lowercase=options["lowercase"],
    )
    encoded = {name: tokens.encode(tokenizer, table, max_length=_UNCUT) for name, table in corpus.splits.items()}
    lengths = {name: one.lengths.tolist() for name, one in encoded.items()}
    manifest.write(corpus, folder, lengths=lengths, models=_language_models(corpus, tokenizer))
    unknown = tokenizer.backend.token_to_id(SPECIAL["unk_token"])
    shares = {split: float((np.concatenate(one.ids) == unknown).mean()) for split, one in encoded.items()}
    worst = max(shares, key=lambda split: shares[split])
    if shares[worst] <= MOST_UNKNOWN:
        return []
    normal, known = tokenizer.backend.normalizer.normalize_str, tokenizer.backend.get_vocab().keys()
    seen = {*normal("".join(learned))}
    read = normal("".join(text for row in texts(corpus.splits[worst]) for text in row))
    lacking = Counter(letter for letter in read if not {letter, f"##{letter}"} & known and not letter.isspace())
    why = "letters that the tokenizer's own texts do not have"
    if 2 * sum(number for letter, number in lacking.items() if letter in seen) > lacking.total():
        why = f"letters outside of the vocabulary; raise data.tokenizer.vocab_size (now {options['vocab_size']})"
    return [f"{shares[worst]:.1%} of the tokens of {worst} are {SPECIAL['unk_token']}: {why}"]


def _language_models(corpus: Corpus, tokenizer: tokens.Tokenizer) -> ngrams.Baselines | None:
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
        raw = {name: files.Raw(f"plugin {plugin.name}: {name}", _table([*rows[name]])) for name in SPLITS}
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError, pa.ArrowException) as error:
        raise InputError(
            f"{plugin.title}: expected {{'train': rows, 'validation': rows, 'test': rows}}, where a row is a "
            f"mapping such as {{'sentence': 'fine', 'label': 1}}: {said(error)}"
        ) from error
    single_or_pair = PAIR if "sentence1" in raw["train"].table.column_names else SINGLE
    others = [name for name in (*TARGETS, GROUP) if name in raw["train"].table.column_names]
    columns = {name: name for name in (*single_or_pair, *others)}
    corpus = build(raw, columns=columns, held_out=0.0, seed=0, source=f"plugin:{plugin.name}", licence="unknown")
    groups = {"groups": corpus.facts["groups"]} if GROUP in columns else {}
    return corpus._replace(facts={"options": options, **groups})


def _table(rows: list[Mapping[str, Any]]) -> pa.Table:
    """Return a table of rows, null where a row lacks a column; of columns that no task has, the names alone."""
    names = dict.fromkeys(name for row in rows for name in row.keys())  # noqa: SIM118 - of mappings alone
    read = {*SINGLE, *PAIR, *TARGETS, GROUP}
    return pa.table({name: [row.get(name) for row in rows] if name in read else pa.nulls(len(rows)) for name in names})
