"""Tokenizers of word pieces and of byte pairs: equal texts give equal bytes, and transformers reads the same ids."""

import hashlib
import json
import os
import re
import subprocess
import sys
import unicodedata
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isoscope.base.errors import InputError
from isoscope.data import byte_pairs, tokens

WORDS = [
    "the", "film", "is", "not", "good", "but", "although", "nobody", "laughed", "its", "Café-style", "wonder'll",
    "outlast", "1,000", "other", "电影", "films",
]  # fmt: skip
TEXTS = [" ".join(WORDS[(row * step) % len(WORDS)] for step in range(1, 3 + row % 11)) for row in range(300)]
LABELS = [row % 2 for row in range(300)]
SINGLE = pa.table({"sentence": TEXTS, "label": LABELS})
PAIR = pa.table({"sentence1": TEXTS, "sentence2": TEXTS[::-1], "label": LABELS})


BPE_WORDS = [
    "the", "film", "is", "Not", "good", "Männer", "läuft,", "nobody's", "õpetaja", "wonder'll", "outlast", "1,000",
    "other", "电影", "films", "xy", "yx", "zw", "wz",
]  # fmt: skip
BPE_TEXTS = [
    " ".join(BPE_WORDS[(row * step) % len(BPE_WORDS)] for step in range(1, 3 + row % 11)) for row in range(300)
]
KINDS: dict[str, tuple[Any, list[str]]] = {
    "wordpiece": (tokens.train_wordpiece, TEXTS),
    "bpe": (byte_pairs.train_bpe, BPE_TEXTS),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Write a tokenizer of each kind; that of words ignores case."""
    made = {name: tmp_path_factory.mktemp(name) for name in KINDS}
    for name, (train, texts) in KINDS.items():
        train(texts, made[name], vocab_size=120, lowercase=name == "wordpiece")
    return made


@pytest.fixture(scope="module")
def folder(folders: dict[str, Path]) -> Path:
    return folders["wordpiece"]


PROGRAM = """
import json, sys
from pathlib import Path
from isoscope.data import byte_pairs, tokens
train = {"wordpiece": tokens.train_wordpiece, "bpe": byte_pairs.train_bpe}[sys.argv[2]]
train(json.load(sys.stdin), Path(sys.argv[1]), vocab_size=120, lowercase=sys.argv[2] == "wordpiece")
print(json.dumps(sorted(name for name in ("transformers", "torch", "datasets", "sklearn") if name in sys.modules)))
"""


@pytest.mark.parametrize("kind", KINDS)
def test_training_gives_the_same_bytes_in_every_process_and_imports_nothing_heavy(
    folders: dict[str, Path], tmp_path: Path, kind: str
) -> None:
    """The library by itself numbers characters, and breaks ties of pairs, in an order of the process."""
    expected = {path.name: path.read_bytes() for path in folders[kind].iterdir()}
    paths = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    for run, parallel in enumerate(["false", "true", "false", "true"]):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(tmp_path / str(run)), kind], input=json.dumps(KINDS[kind][1]),
            text=True, capture_output=True, check=True,
            env=paths | {"TOKENIZERS_PARALLELISM": parallel, "PYTHONHASHSEED": str(run)},
        )  # fmt: skip
        assert json.loads(done.stdout) == []
        assert {path.name: path.read_bytes() for path in (tmp_path / str(run)).iterdir()} == expected


@pytest.mark.parametrize("kind", KINDS)
def test_ids_are_those_that_transformers_gives(folders: dict[str, Path], kind: str) -> None:
    peer = pytest.importorskip("transformers").AutoTokenizer.from_pretrained(folders[kind])
    assert peer.is_fast
    special = (peer.pad_token_id, peer.unk_token_id, peer.cls_token_id, peer.sep_token_id, peer.mask_token_id)
    assert special == (0, 1, 2, 3, 4)
    ours, one = tokens.load(folders[kind]), KINDS[kind][1]
    assert (ours.pad_id, ours.vocab_size) == (0, len(peer))
    both = pa.table({"sentence1": one, "sentence2": one[::-1], "label": LABELS})
    whole = [len(ids) for ids in peer(one, one[::-1])["input_ids"]]
    for max_length in (64, 12):
        single = tokens.encode_column(ours, both, "sentence2", max_length=max_length)
        theirs = peer(one[::-1], truncation=True, max_length=max_length)
        assert [list(ids) for ids in single.ids] == theirs["input_ids"]
        pair = tokens.encode(ours, both, max_length=max_length)
        theirs = peer(one, one[::-1], truncation=True, max_length=max_length)
        assert [list(ids) for ids in pair.ids] == theirs["input_ids"]
        assert [list(types) for types in pair.type_ids] == theirs["token_type_ids"]
        assert pair.truncated == sum(length > max_length for length in whole)
    assert pair.truncated > 100  # the shorter bound does cut


@pytest.mark.parametrize("kind", KINDS)
def test_no_text_trains_no_vocabulary(tmp_path: Path, kind: str) -> None:
    with pytest.raises(InputError, match="no words to train a vocabulary on"):
        KINDS[kind][0](["", " \t", *["▁"] * (kind == "bpe")], tmp_path, vocab_size=100, lowercase=False)


PINNED = {
    "wordpiece": (["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "'", ",", "-", "0"], "d2776e026cecbf89"),
    "bpe": (["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "'", ","], "3b2a54949d4ea4e3"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_vocabulary_is_pinned(folders: dict[str, Path], kind: str) -> None:
    """A golden value: other versions of the library must not renumber the pieces."""
    ranked = sorted(tokens.load(folders[kind]).backend.get_vocab().items(), key=lambda item: item[1])
    first, digest = PINNED[kind]
    assert [token for token, _ in ranked[: len(first)]] == first
    assert hashlib.sha256(repr(ranked).encode()).hexdigest()[:16] == digest


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
    assert 1 in tokens.load(folder).backend.encode("漢字").ids


def test_case_is_kept_where_asked(tmp_path: Path) -> None:
    made = tokens.train_wordpiece(["Good good"] * 3, tmp_path, vocab_size=60, lowercase=False).backend
    assert made.encode("Good").ids != made.encode("good").ids


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


@pytest.mark.parametrize(
    "file, options",
    [
        ("added_tokens.json", {"<e1>": 7}),
        ("tokenizer_config.json", {"added_tokens_decoder": {"0": {"content": "[PAD]"}, "7": {"content": "<e1>"}}}),
        ("tokenizer_config.json", {"additional_special_tokens": ["<e1>"]}),
        ("special_tokens_map.json", {"mask_token": "<e1>"}),
        ("special_tokens_map.json", {"mask_token": {"content": "<e1>"}}),
    ],
)
def test_tokens_beside_a_vocabulary_are_not_lost(tmp_path: Path, file: str, options: dict[str, object]) -> None:
    (tmp_path / "vocab.txt").write_text(VOCABULARY, "utf-8")
    (tmp_path / file).write_text(json.dumps(options), "utf-8")
    with pytest.raises(InputError, match=r"its tokenizer has tokens of its own \(<e1>\), .* isoscope convert"):
        tokens.load(tmp_path)


@pytest.mark.parametrize(
    "file, options",
    [
        ("tokenizer_config.json", {"additional_special_tokens": ["film"]}),
        ("tokenizer_config.json", {"extra_special_tokens": {"image_token": "film"}}),
        ("tokenizer_config.json", {"added_tokens_decoder": {"6": {"content": "film"}}}),
        ("special_tokens_map.json", {"additional_special_tokens": [{"content": "film"}]}),
    ],
)
def test_a_special_token_of_the_vocabulary_is_no_word(tmp_path: Path, file: str, options: dict[str, object]) -> None:
    (tmp_path / "vocab.txt").write_text(VOCABULARY, "utf-8")
    assert tokens.load(tmp_path).backend.encode("THE FILM").tokens == ["[CLS]", "the", "film", "[SEP]"]
    (tmp_path / file).write_text(json.dumps(options), "utf-8")
    loaded = tokens.load(tmp_path).backend
    assert loaded.encode("the film").tokens == ["[CLS]", "the", "film", "[SEP]"]
    assert loaded.decode(loaded.encode("the film").ids) == "the"
    assert loaded.get_vocab_size() == len(VOCABULARY.split())


@pytest.mark.parametrize("name", ["BertTokenizer", "BertTokenizerFast", "DistilBertTokenizer", "ElectraTokenizerFast"])
def test_a_vocabulary_of_berts_words_is_read(tmp_path: Path, name: str) -> None:
    (tmp_path / "vocab.txt").write_text(VOCABULARY, "utf-8")
    options = {"tokenizer_class": name, "do_basic_tokenize": True, "never_split": None, "do_lower_case": True}
    options |= {"mask_token": "[MASK]", "added_tokens_decoder": {"4": {"content": "[MASK]"}}}
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


def test_order_of_the_sentences_does_not_matter(folders: dict[str, Path], tmp_path: Path) -> None:
    byte_pairs.train_bpe(BPE_TEXTS[::-1], tmp_path, vocab_size=120, lowercase=False)
    assert (tmp_path / "tokenizer.json").read_bytes() == (folders["bpe"] / "tokenizer.json").read_bytes()


@given(
    text=st.text(
        alphabet=sorted({character for text in BPE_TEXTS for character in text} | set("▁\t\u3000ﬁ")), max_size=40
    )
)
def test_text_of_known_characters_is_restored(folders: dict[str, Path], text: str) -> None:
    backend = tokens.load(folders["bpe"]).backend
    expected = " ".join(unicodedata.normalize("NFKC", text).replace("▁", " ").split())
    encoded = backend.encode(text)
    assert "[UNK]" not in encoded.tokens
    assert backend.decode(encoded.ids) == expected


def test_pieces_are_merges_of_frequent_neighbours(tmp_path: Path) -> None:
    """The example of Sennrich et al. 2016: the first merges in low, lower, newest, widest."""
    words = ["low"] * 5 + ["lower"] * 2 + ["newest"] * 6 + ["widest"] * 3
    made = byte_pairs.train_bpe(words, tmp_path, vocab_size=30, lowercase=False)
    merges = json.loads((tmp_path / "tokenizer.json").read_text("utf-8"))["model"]["merges"]
    assert ["".join(merge) for merge in merges[:2]] == ["es", "est"]
    assert {"▁low", "▁newest"} <= made.backend.get_vocab().keys()


@pytest.mark.parametrize("lowercase, expected", [(True, "männer läuft, õpetaja"), (False, "Männer läuft, õpetaja")])
def test_lower_case_keeps_accents(tmp_path: Path, lowercase: bool, expected: str) -> None:
    backend = byte_pairs.train_bpe([*BPE_TEXTS, "männer"], tmp_path, vocab_size=200, lowercase=lowercase).backend
    assert backend.decode(backend.encode("Männer  läuft, õpetaja ").ids) == expected


@pytest.mark.parametrize(
    "kind, size, characters, pieces",
    [
        ("wordpiece", 12, {"e", "##e", "t", "##t"}, ["[CLS]", "e", "##t", "[SEP]"]),
        ("bpe", 6, {"▁", "e"}, ["[CLS]", "▁", "e", "[UNK]", "[SEP]"]),  # q and t once: by code point
    ],
)
def test_small_vocabulary_keeps_the_frequent_characters(
    tmp_path: Path, kind: str, size: int, characters: set[str], pieces: list[str]
) -> None:
    made = KINDS[kind][0](["eee eee eet", "q"], tmp_path, vocab_size=size, lowercase=False)
    assert characters <= made.backend.get_vocab().keys()
    assert made.backend.encode("et").tokens == pieces
    assert "model_max_length" not in json.loads((tmp_path / "tokenizer_config.json").read_text())
    assert kind == "bpe" or made.vocab_size <= size


@pytest.mark.parametrize("kind", KINDS)
def test_chinese_has_more_than_a_thousand_letters(tmp_path: Path, kind: str) -> None:
    """So has Korean, which has spaces. Rare letters stay out of text with spaces: each costs a piece of a word."""
    letters = [chr(0x4E00 + number) for number in range(1500)]
    texts = ["".join(letters[start : start + 10]) for start in range(0, 1500, 10)] * 3
    made = KINDS[kind][0](texts, tmp_path / "zh", vocab_size=8000, lowercase=False)
    assert {*letters} <= {*made.backend.get_vocab()}
    syllables = [chr(0xAC00 + number) for number in range(1500)]
    words = ["".join(syllables[start : start + 3]) for start in range(0, 1500, 3)]
    spaced = [" ".join(words[start : start + 5]) for start in range(0, 500, 5)]
    korean = KINDS[kind][0](spaced * 3, tmp_path / "ko", vocab_size=8000, lowercase=False)
    assert len({*syllables} & {*korean.backend.get_vocab()}) >= tokens.COVERED * len(syllables)
    often = ["".join(syllables[start : start + 10]) for start in range(0, 900, 10)]
    mixed = [" ".join(often)] * 600 + [" ".join(words[350:])]
    bounded = KINDS[kind][0](mixed, tmp_path / "mixed", vocab_size=8000, lowercase=False)
    assert len({one for one in bounded.backend.get_vocab() if len(one) == 1}) <= tokens.LETTERS
