"""WordPiece tokenizers: equal texts give equal bytes, and transformers reads the same ids."""

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from isoscope.base.errors import InputError
from isoscope.data import tokens

WORDS = [
    "the", "film", "is", "not", "good", "but", "although", "nobody", "laughed", "its", "Café-style", "wonder'll",
    "outlast", "1,000", "other", "电影", "films",
]  # fmt: skip
TEXTS = [" ".join(WORDS[(row * step) % len(WORDS)] for step in range(1, 3 + row % 11)) for row in range(300)]
LABELS = [row % 2 for row in range(300)]
SINGLE = pa.table({"sentence": TEXTS, "label": LABELS})
PAIR = pa.table({"sentence1": TEXTS, "sentence2": TEXTS[::-1], "label": LABELS})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("tokenizer")
    tokens.train_wordpiece(TEXTS, made, vocab_size=120, lowercase=True)
    return made


PROGRAM = """
import json, sys
from pathlib import Path
from isoscope.data import tokens
tokens.train_wordpiece(json.load(sys.stdin), Path(sys.argv[1]), vocab_size=120, lowercase=True)
print(json.dumps(sorted(name for name in ("transformers", "torch", "datasets", "sklearn") if name in sys.modules)))
"""


def test_training_gives_the_same_bytes_in_every_process_and_imports_nothing_heavy(folder: Path, tmp_path: Path) -> None:
    """The library by itself numbers characters in an order of the process; several processes would tell."""
    expected = {path.name: path.read_bytes() for path in folder.iterdir()}
    for run, parallel in enumerate(["false", "true", "false"]):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(tmp_path / str(run))], input=json.dumps(TEXTS), text=True,
            capture_output=True, check=True, env=os.environ | {"TOKENIZERS_PARALLELISM": parallel},
        )  # fmt: skip
        assert json.loads(done.stdout) == []
        assert {path.name: path.read_bytes() for path in (tmp_path / str(run)).iterdir()} == expected


def test_ids_are_those_that_transformers_gives(folder: Path) -> None:
    transformers = pytest.importorskip("transformers")
    peer = transformers.AutoTokenizer.from_pretrained(folder)
    assert peer.is_fast
    ours = tokens.load(folder)
    assert ours.pad_id == peer.pad_token_id == 0
    assert ours.vocab_size == len(peer)
    for max_length in (64, 12):
        single = tokens.encode(ours, SINGLE, max_length=max_length)
        theirs = peer(TEXTS, truncation=True, max_length=max_length)
        assert [list(ids) for ids in single.ids] == theirs["input_ids"]
        pair = tokens.encode(ours, PAIR, max_length=max_length)
        theirs = peer(TEXTS, TEXTS[::-1], truncation=True, max_length=max_length)
        assert [list(ids) for ids in pair.ids] == theirs["input_ids"]
        assert [list(types) for types in pair.type_ids] == theirs["token_type_ids"]
        whole = [len(ids) for ids in peer(TEXTS, TEXTS[::-1])["input_ids"]]
        assert pair.truncated == sum(length > max_length for length in whole)
    assert pair.truncated > 100  # the shorter bound does cut


def test_a_checkpoint_with_a_bare_vocabulary_reads_as_transformers_reads_it(folder: Path, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    ranked = sorted(tokens.load(folder).backend.get_vocab().items(), key=lambda item: item[1])
    (tmp_path / "vocab.txt").write_text("".join(f"{token}\n" for token, _ in ranked), "utf-8")
    text = pa.table({"sentence": ["The Café, not good", "电影 films"], "label": [0, 1]})
    found = []
    for lowercase in (True, False):
        (tmp_path / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": lowercase, "strip_accents": None}))
        ours = tokens.encode(tokens.load(tmp_path), text, max_length=32)
        theirs = transformers.BertTokenizerFast.from_pretrained(tmp_path)(text["sentence"].to_pylist())
        found.append([list(ids) for ids in ours.ids])
        assert found[-1] == theirs["input_ids"]
    assert found[0] != found[1]


def test_the_frame_and_the_vocabulary_are_those_of_bert(folder: Path) -> None:
    made = tokens.load(folder)
    vocabulary = made.backend.get_vocab()
    assert [vocabulary[token] for token in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")] == [0, 1, 2, 3, 4]
    assert sorted(vocabulary.values()) == list(range(made.vocab_size))
    assert made.vocab_size <= 120
    characters = {character for text in TEXTS for character in text.lower().replace("é", "e") if character != " "}
    assert characters <= vocabulary.keys()
    encoded = tokens.encode(made, PAIR.slice(0, 1), max_length=64)
    ids, types = encoded.ids[0].tolist(), encoded.type_ids[0].tolist()
    assert (ids[0], ids[-1], ids.count(3)) == (2, 3, 2)
    assert types == [0] * (ids.index(3) + 1) + [1] * (len(ids) - ids.index(3) - 1)
    # "##a" helped to train and is no special token: in a text it is two hashes and a letter.
    assert made.backend.encode("##o", add_special_tokens=False).ids != [vocabulary["##o"]]


def test_words_seen_in_training_have_no_unknown_piece(folder: Path) -> None:
    encoded = tokens.encode(tokens.load(folder), SINGLE, max_length=64)
    assert all(1 not in ids for ids in encoded.ids)
    unseen = pa.table({"sentence": ["漢字", "the"], "label": [0, 1]})
    assert 1 in tokens.encode(tokens.load(folder), unseen, max_length=64).ids[0]


def test_a_vocabulary_too_small_for_every_character_keeps_the_frequent_ones(tmp_path: Path) -> None:
    made = tokens.train_wordpiece(["eee eee eet", "q"], tmp_path, vocab_size=12, lowercase=True)
    vocabulary = made.backend.get_vocab()
    assert {"e", "##e", "t", "##t"} <= vocabulary.keys()
    assert made.vocab_size <= 12
    assert "model_max_length" not in json.loads((tmp_path / "tokenizer_config.json").read_text())


def test_case_is_kept_where_asked(tmp_path: Path) -> None:
    made = tokens.train_wordpiece(["Good good"] * 3, tmp_path, vocab_size=60, lowercase=False)
    table = pa.table({"sentence": ["Good", "good"], "label": [0, 1]})
    upper, lower = tokens.encode(made, table, max_length=8).ids
    assert upper.tolist() != lower.tolist()


def test_padding_and_truncation_that_a_file_brings_are_taken_off(folder: Path, tmp_path: Path) -> None:
    brought = tokens.load(folder).backend
    brought.enable_padding(length=40)
    brought.enable_truncation(5)
    brought.save(str(tmp_path / "tokenizer.json"))
    plain = tokens.encode(tokens.load(folder), SINGLE, max_length=64)
    assert [ids.tolist() for ids in tokens.encode(tokens.load(tmp_path), SINGLE, max_length=64).ids] == [
        ids.tolist() for ids in plain.ids
    ]
    assert plain.truncated == 0
    assert plain.lengths.tolist() == [len(ids) for ids in plain.ids]


def test_a_copy_beside_weights_says_how_long_a_text_the_model_takes(folder: Path, tmp_path: Path) -> None:
    tokens.copy(folder, tmp_path, max_length=33)
    peer = pytest.importorskip("transformers").AutoTokenizer.from_pretrained(tmp_path)
    assert peer.model_max_length == 33
    assert len(peer(" ".join(TEXTS[:20]), truncation=True)["input_ids"]) == 33


@pytest.mark.parametrize(
    "files, message",
    [
        ({}, "no tokenizer; expected tokenizer.json, vocab.txt or source.spm"),
        ({"tokenizer.json": "{}"}, "not a tokenizer: "),
        ({"vocab.txt": "[PAD]\n[UNK]\nthe\n"}, r"not a BERT vocabulary, it lacks \[CLS\], \[SEP\], \[MASK\]"),
        ({"vocab.txt": "a\n", "tokenizer_config.json": "{"}, "tokenizer_config.json: not JSON"),
        (
            {"vocab.txt": "a\n", "tokenizer_config.json": "[]"},
            "expected a JSON object, got list",
        ),
        (
            {"vocab.txt": "a\n", "tokenizer_config.json": "[" * 100_000},
            "tokenizer_config.json: JSON nested too deeply; flatten it",
        ),
        (
            {"vocab.txt": "a\n", "tokenizer_config.json": '{"strip_accents": 3}'},
            "strip_accents: expected true,",
        ),
        ({"vocab.txt": "\udcff\n"}, "vocab.txt: not UTF-8 at byte 0"),
        ({"tokenizer.json": "[" * 100_000}, "not a tokenizer: "),
    ],
)
def test_folders_without_a_tokenizer_are_refused(tmp_path: Path, files: dict[str, str], message: str) -> None:
    for name, content in files.items():
        (tmp_path / name).write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(InputError, match=message):
        tokens.load(tmp_path)


VOCABULARY = "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "film"])


@pytest.mark.parametrize(
    "file, options, named",
    [
        ("tokenizer_config.json", {"tokenizer_class": "BertJapaneseTokenizer"}, "BertJapaneseTokenizer"),
        ("config.json", {"tokenizer_class": "BertJapaneseTokenizer"}, "BertJapaneseTokenizer"),
        ("tokenizer_config.json", {"word_tokenizer_type": "mecab"}, "word_tokenizer_type 'mecab'"),
        ("tokenizer_config.json", {"subword_tokenizer_type": "character"}, "subword_tokenizer_type"),
        ("tokenizer_config.json", {"mecab_kwargs": {"mecab_dic": "unidic_lite"}}, "mecab_kwargs"),
        ("tokenizer_config.json", {"tokenizer_class": "EsmTokenizer"}, "EsmTokenizer"),
        ("tokenizer_config.json", {"tokenizer_class": "BertweetTokenizer"}, "BertweetTokenizer"),
        ("tokenizer_config.json", {"tokenizer_class": ["BertTokenizer", None]}, "BertTokenizer"),
        ("tokenizer_config.json", {"do_basic_tokenize": False}, "do_basic_tokenize False"),
        ("tokenizer_config.json", {"never_split": ["the film"]}, "never_split"),
    ],
)
def test_a_vocabulary_of_words_found_in_another_way_is_refused(
    tmp_path: Path, file: str, options: dict[str, object], named: str
) -> None:
    (tmp_path / "vocab.txt").write_text(VOCABULARY, "utf-8")
    (tmp_path / file).write_text(json.dumps(options), "utf-8")
    with pytest.raises(InputError, match=re.escape(named)) as found:
        tokens.load(tmp_path)
    assert str(tmp_path) in str(found.value)
    assert "tokenizer.json" in str(found.value)


@pytest.mark.parametrize("name", ["BertTokenizer", "BertTokenizerFast", "DistilBertTokenizer", "ElectraTokenizerFast"])
def test_a_vocabulary_of_berts_words_is_read(tmp_path: Path, name: str) -> None:
    (tmp_path / "vocab.txt").write_text(VOCABULARY, "utf-8")
    options = {"tokenizer_class": name, "do_basic_tokenize": True, "never_split": None, "do_lower_case": True}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(options), "utf-8")
    assert tokens.load(tmp_path).backend.encode("The film").tokens == ["[CLS]", "the", "film", "[SEP]"]


def test_no_padding_token_is_refused(folder: Path, tmp_path: Path) -> None:
    renamed = (folder / "tokenizer.json").read_text("utf-8").replace("[PAD]", "[EMPTY]")
    (tmp_path / "tokenizer.json").write_text(renamed, "utf-8")
    with pytest.raises(InputError, match=r"neither \[PAD\] nor <pad>"):
        tokens.load(tmp_path)


@pytest.mark.parametrize("table, shortest", [(SINGLE, 3), (PAIR, 5)])
def test_a_bound_without_room_for_text_is_refused(folder: Path, table: pa.Table, shortest: int) -> None:
    made = tokens.load(folder)
    assert max(tokens.encode(made, table, max_length=shortest).lengths) == shortest
    with pytest.raises(InputError, match=f"max_length: {shortest - 1} leaves no room"):
        tokens.encode(made, table, max_length=shortest - 1)


def test_no_text_trains_no_vocabulary(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no words to train a vocabulary on"):
        tokens.train_wordpiece(["", " "], tmp_path, vocab_size=100, lowercase=True)


def test_the_vocabulary_is_pinned(folder: Path) -> None:
    """A golden value: other versions of the library must not renumber the pieces."""
    ranked = sorted(tokens.load(folder).backend.get_vocab().items(), key=lambda item: item[1])
    assert [token for token, _ in ranked[:9]] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "'", ",", "-", "0"]
    assert hashlib.sha256(repr(ranked).encode()).hexdigest()[:16] == "d2776e026cecbf89"
