"""Tokenizers: train a WordPiece vocabulary, load any trained tokenizer, and encode text as token ids.

Uses the library `tokenizers`, not transformers, which is slow to import.
"""

import json
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from tokenizers import Tokenizer as Backend
from tokenizers import models, normalizers, pre_tokenizers, trainers

from isoscope.base.errors import InputError
from isoscope.data.arrays import Ids, Indices
from isoscope.data.bert_vocabulary import SPECIAL, bert, from_vocabulary, options_of
from isoscope.data.checkpoints import TOKENIZER_CONFIG, tokenizer_of
from isoscope.data.corpus import SINGLE, text_columns, texts
from isoscope.data.hub import TOKENIZER_FILES
from isoscope.data.marian import SOURCE, marian_tokenizer
from isoscope.data.scripts import glued

ANY_CLASS: dict[str, object] = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
}
"""Options of a tokenizer that transformers loads as its file says."""
LONGEST = 10_000
"""Letters of a word of WordPiece in text without spaces, where a sentence is a word."""
LETTERS, COVERED = 1000, 0.999
"""Letters of an alphabet at most, or as many as make up this share of the text. Text without spaces has all letters."""
SEEN_TWICE = 2
"""Occurrences of a token in text without spaces."""
BEGINS, ENDS = ("[CLS]", "<s>", "<|endoftext|>"), ("[SEP]", "</s>", "<|endoftext|>")
"""Usual tokens before and after a text: BERT's, RoBERTa's, GPT-2's."""
NO_CLASS = -1
"""Class number of an example without a class."""


class Tokenizer(NamedTuple):
    """A loaded tokenizer of any kind: the library's object, the id of its padding token, and the number of its ids."""

    backend: Backend
    pad_id: int
    vocab_size: int


class Encoded(NamedTuple):
    """Token ids and segment ids, one array per example; class numbers `[N]`; number of truncated examples.

    The class number of an example without a class, as in a text task, is `NO_CLASS`.
    """

    ids: list[Ids]
    type_ids: list[Ids]
    labels: Indices
    truncated: int

    @property
    def lengths(self) -> Indices:
        """Tokens per example, special tokens included, `[N]`."""
        return np.fromiter((len(ids) for ids in self.ids), np.int64, len(self.ids))

    def take(self, rows: Indices) -> "Encoded":
        """Return the examples `rows`, in that order; `truncated` stays the number for the whole split."""
        ids, type_ids = ([arrays[row] for row in rows] for arrays in (self.ids, self.type_ids))
        return Encoded(ids, type_ids, self.labels[rows], self.truncated)


def train_wordpiece(sentences: Iterable[str], folder: Path, *, vocab_size: int, lowercase: bool) -> Tokenizer:
    """Train a BERT tokenizer (WordPiece, Schuster & Nakajima 2012; arXiv:1810.04805) and save it in `folder`.

    `vocab_size` bounds the vocabulary, special tokens included. Its alphabet is the `frequent_characters`, at most half
    of the vocabulary. Text without spaces between words: see `byte_pairs.train_bpe`. The same sentences give the same
    bytes. Raises `InputError` if there is no text.
    """
    sentences = list(sentences)
    normalizer, splitter = normalizers.BertNormalizer(lowercase=lowercase), pre_tokenizers.BertPreTokenizer()
    words = [word for text in sentences for word, _ in splitter.pre_tokenize_str(normalizer.normalize_str(text))]
    inner = {character for word in words for character in word[1:]}
    whole = glued(sentences)
    ranked = frequent_characters(words, every=whole)
    forms = accumulate(1 + (character in inner) for character in ranked)
    alphabet = sorted(character for character, total in zip(ranked, forms, strict=True) if total <= vocab_size // 2)
    pieces = alphabet + [f"##{character}" for character in alphabet if character in inner]
    # The trainer numbers characters in the order of a randomly seeded hash map and breaks ties between pairs by these
    # numbers. Passed first as special tokens, the characters have fixed numbers. We keep only the vocabulary of the
    # trained tokenizer, so that "##a" does not become a special token.
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size,
        special_tokens=[*SPECIAL.values(), *pieces],
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        min_frequency=SEEN_TWICE * whole,
        show_progress=False,
    )
    trained = Backend(models.WordPiece(unk_token=SPECIAL["unk_token"]))
    trained.normalizer, trained.pre_tokenizer = normalizer, splitter
    trained.train_from_iterator(sentences, trainer)
    tokenizer = bert(trained.get_vocab(), normalizer)
    options: dict[str, object] = {"tokenizer_class": "BertTokenizer", "do_lower_case": lowercase}
    if whole:  # transformers' BertTokenizer ignores this limit of the file: 100 letters, and a longer word is [UNK]
        tokenizer.model.max_input_chars_per_word, options = LONGEST, ANY_CLASS
    save(tokenizer, folder, options)
    return load(folder)


def frequent_characters(words: Iterable[str], *, every: bool) -> list[str]:
    """Return the characters of words by falling frequency, equally frequent characters by code point.

    Not `every`: at most `LETTERS`, or as many as make up the share `COVERED` of all, as Korean syllables do. Raises
    `InputError` if there are none.
    """
    counts = Counter(character for word in words for character in word)
    if not counts:
        raise InputError("tokenizer: the train split has no words to train a vocabulary on")
    ranked = sorted(counts, key=lambda character: (-counts[character], character))
    covered = accumulate(counts[character] / counts.total() for character in ranked)
    enough = sum(share < COVERED for share in covered) + 1
    return ranked if every else ranked[: max(LETTERS, enough)]


def save(tokenizer: Backend, folder: Path, options: dict[str, object]) -> None:
    """Write a tokenizer to `folder`, with `options` and the special tokens for transformers."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    _write_json(folder / TOKENIZER_CONFIG, options | SPECIAL)


def load(folder: Path, *, padded: bool = True) -> Tokenizer:
    """Load the tokenizer in `folder`: tokenizer.json, or BERT's vocab.txt with the options of tokenizer_config.json, or
    Marian's source.spm with vocab.json. For a run's snapshot it is the run's tokenizer.

    Disables the file's padding and truncation. Raises `InputError` if no file is readable, or if the vocabulary has no
    token that can serve as padding: its own, or the token that ends a text. With `padded=False` any id may serve,
    because padding is masked.
    """
    folder = tokenizer_of(folder)
    if (file := folder / "tokenizer.json").is_file():
        try:
            tokenizer = Backend.from_file(str(file))
        except Exception as error:  # the library raises bare Exception
            raise InputError(f"{file}: not a tokenizer: {error}") from None
    elif (folder / "vocab.txt").is_file():
        tokenizer = from_vocabulary(folder)
    elif (folder / SOURCE).is_file():
        tokenizer = marian_tokenizer(folder)
    else:
        raise InputError(
            f"{folder}: no tokenizer; expected tokenizer.json, vocab.txt or {SOURCE}; other kinds (*.model, vocab.json "
            f"with merges.txt): isoscope convert {folder} OUT"
        )
    tokenizer.no_padding()
    tokenizer.no_truncation()
    vocabulary = tokenizer.get_vocab()
    padding = first_of(vocabulary, ["[PAD]", "<pad>", *declared(folder, "pad_token", "eos_token"), ENDS[-1]])
    if padding is None and padded:
        raise InputError(
            f"{folder}: neither [PAD] nor <pad> is in the tokenizer's vocabulary, and {TOKENIZER_CONFIG} names no "
            "pad_token or eos_token of it; batches need padding"
        )
    return Tokenizer(tokenizer, padding or 0, max(vocabulary.values()) + 1)


def first_of(vocabulary: Mapping[str, int], names: Iterable[str]) -> int | None:
    """Return the id of the first of these tokens that a vocabulary has."""
    return next((vocabulary[name] for name in names if name in vocabulary), None)


def declared(folder: Path, *roles: str) -> list[str]:
    """Return the tokens that a tokenizer's options name for these roles, such as `eos_token`."""
    named = (options_of(folder).get(role) for role in roles)
    texts = (one.get("content") if isinstance(one, dict) else one for one in named)
    return [one for one in texts if isinstance(one, str)]


def copy(source: Path, target: Path, *, max_length: int) -> None:
    """Copy the tokenizer files of folder `source` to `target` and set `model_max_length` to `max_length`."""
    for file in {file for pattern in TOKENIZER_FILES for file in source.glob(pattern) if file.name != TOKENIZER_CONFIG}:
        shutil.copyfile(file, target / file.name)
    _write_json(target / TOKENIZER_CONFIG, options_of(source) | {"model_max_length": max_length})


def encodings(
    tokenizer: Tokenizer, table: pa.Table, *, max_length: int, offsets: bool = False, key: str = "max_length"
) -> Iterator[Any]:
    """Yield the library's encodings of the sentences or pairs in `table`, truncated to `max_length` tokens.

    In a pair, the longer sentence is truncated first. `offsets`: with the place of each token in the text, which takes
    longer. Raises `InputError`, naming `key`, if `max_length` leaves no room for text.
    """
    rows, backend = iter(texts(table)), tokenizer.backend
    count = len(text_columns(table))
    if max_length < backend.num_special_tokens_to_add(count == 2) + count:
        raise InputError(f"{key}: {max_length} leaves no room for text beside the special tokens")
    encode_batch = backend.encode_batch if offsets else backend.encode_batch_fast
    backend.enable_truncation(max_length)
    while chunk := list(islice(rows, 4096)):  # in chunks, because an encoding holds much more than its ids
        yield from encode_batch([text if count == 2 else text[0] for text in chunk])
    backend.no_truncation()


def encoded(encodings: Iterable[Any], labels: Indices) -> Encoded:
    """Return the token ids of the library's encodings, with the class of each."""
    ids, type_ids, truncated = [], [], 0
    for encoding in encodings:
        ids.append(np.array(encoding.ids, np.int32))
        type_ids.append(np.array(encoding.type_ids, np.int32))
        truncated += bool(encoding.overflowing)
    return Encoded(ids, type_ids, labels, truncated)


def encode(tokenizer: Tokenizer, table: pa.Table, *, max_length: int) -> Encoded:
    """Return token ids of the sentences or pairs in `table`, with special tokens, truncated to `max_length` tokens.

    In a pair, the longer sentence is truncated first. Raises `InputError` if `max_length` leaves no room for text.
    """
    return encoded(encodings(tokenizer, table, max_length=max_length, key="model.max_length"), classes(table))


def encode_column(tokenizer: Tokenizer, table: pa.Table, column: str, *, max_length: int) -> Encoded:
    """Return token ids `[CLS] text [SEP]` of one text column of `table`, truncated to `max_length` tokens.

    This is the input of a language model on one side of a pair, and either side of a translation. Raises `InputError`
    if `max_length` leaves no room for text, or if `column` is not a text column of `table`.
    """
    if column not in (there := text_columns(table)) or column not in table.column_names:
        raise InputError(f"column {column!r}: not a text column; the table has {' and '.join(there)}")
    alone = pa.table({SINGLE[0]: table[column]})
    found = encodings(tokenizer, alone, max_length=max_length, key="model.max_length")
    return encoded(found, classes(table))


def classes(table: pa.Table) -> Indices:
    """Return the class numbers of `table` `[N]`; `NO_CLASS` for each row of a table without labels."""
    if "label" in table.column_names:
        found: Indices = table["label"].to_numpy()
        return found
    return np.full(table.num_rows, NO_CLASS, np.int64)


def _write_json(path: Path, content: dict[str, object]) -> None:
    path.write_text(json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
