"""Byte-pair encodings: equal texts give equal bytes, transformers reads the same ids, and text is restored."""

import hashlib
import json
import os
import subprocess
import sys
import unicodedata
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isoscope.base.errors import InputError
from isoscope.data import tokens
from isoscope.data.byte_pairs import train_bpe

WORDS = [
    "the", "film", "is", "Not", "good", "Männer", "läuft,", "nobody's", "õpetaja", "wonder'll", "outlast", "1,000",
    "other", "电影", "films", "xy", "yx", "zw", "wz",
]  # fmt: skip
TEXTS = [" ".join(WORDS[(row * step) % len(WORDS)] for step in range(1, 3 + row % 11)) for row in range(300)]
PAIR = pa.table({"sentence1": TEXTS, "sentence2": TEXTS[::-1]})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("bpe")
    train_bpe(TEXTS, made, vocab_size=120, lowercase=False)
    return made


PROGRAM = """
import json, sys
from pathlib import Path
from isoscope.data.byte_pairs import train_bpe
train_bpe(json.load(sys.stdin), Path(sys.argv[1]), vocab_size=120, lowercase=False)
"""


def test_training_gives_the_same_bytes_in_every_process(folder: Path, tmp_path: Path) -> None:
    """Many pairs of characters are equally frequent, so a tie that a hash map broke would show."""
    expected = {path.name: path.read_bytes() for path in folder.iterdir()}
    for run, parallel in enumerate(["false", "true", "false", "true"]):
        changes = {"TOKENIZERS_PARALLELISM": parallel, "PYTHONHASHSEED": str(run)}
        subprocess.run(
            [sys.executable, "-c", PROGRAM, str(tmp_path / str(run))], input=json.dumps(TEXTS), text=True,
            check=True, env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))} | changes,
        )  # fmt: skip
        assert {path.name: path.read_bytes() for path in (tmp_path / str(run)).iterdir()} == expected


def test_order_of_the_sentences_does_not_matter(folder: Path, tmp_path: Path) -> None:
    train_bpe(TEXTS[::-1], tmp_path, vocab_size=120, lowercase=False)
    assert (tmp_path / "tokenizer.json").read_bytes() == (folder / "tokenizer.json").read_bytes()


def test_ids_and_text_are_those_of_transformers(folder: Path) -> None:
    peer = pytest.importorskip("transformers").AutoTokenizer.from_pretrained(folder)
    assert peer.is_fast
    ours = tokens.load(folder)
    special = (peer.pad_token_id, peer.unk_token_id, peer.cls_token_id, peer.sep_token_id, peer.mask_token_id)
    assert special == (0, 1, 2, 3, 4)
    assert (ours.pad_id, ours.vocab_size) == (0, len(peer))
    for max_length in (64, 12):
        one = tokens.encode_column(ours, PAIR, "sentence2", max_length=max_length)
        theirs = peer(TEXTS[::-1], truncation=True, max_length=max_length)
        assert [list(ids) for ids in one.ids] == theirs["input_ids"]
        pair = tokens.encode(ours, PAIR, max_length=max_length)
        theirs = peer(TEXTS, TEXTS[::-1], truncation=True, max_length=max_length)
        assert [list(ids) for ids in pair.ids] == theirs["input_ids"]
        assert [list(types) for types in pair.type_ids] == theirs["token_type_ids"]
    ids = tokens.encode_column(ours, PAIR, "sentence1", max_length=200).ids
    assert [peer.decode(one, skip_special_tokens=True) for one in ids] == TEXTS
    assert [ours.backend.decode(one.tolist()) for one in ids] == TEXTS


@given(
    text=st.text(alphabet=sorted({character for text in TEXTS for character in text} | set("▁\t\u3000ﬁ")), max_size=40)
)
def test_text_of_known_characters_is_restored(folder: Path, text: str) -> None:
    backend = tokens.load(folder).backend
    expected = " ".join(unicodedata.normalize("NFKC", text).replace("▁", " ").split())
    encoded = backend.encode(text)
    assert "[UNK]" not in encoded.tokens
    assert backend.decode(encoded.ids) == expected


def test_pieces_are_merges_of_frequent_neighbours(tmp_path: Path) -> None:
    """The example of Sennrich et al. 2016: the first merges in low, lower, newest, widest."""
    words = ["low"] * 5 + ["lower"] * 2 + ["newest"] * 6 + ["widest"] * 3
    made = train_bpe(words, tmp_path, vocab_size=30, lowercase=False)
    merges = json.loads((tmp_path / "tokenizer.json").read_text("utf-8"))["model"]["merges"]
    assert ["".join(merge) for merge in merges[:2]] == ["es", "est"]
    assert {"▁low", "▁newest"} <= made.backend.get_vocab().keys()


@pytest.mark.parametrize("lowercase, expected", [(True, "männer läuft, õpetaja"), (False, "Männer läuft, õpetaja")])
def test_lower_case_keeps_accents(tmp_path: Path, lowercase: bool, expected: str) -> None:
    backend = train_bpe([*TEXTS, "männer"], tmp_path, vocab_size=200, lowercase=lowercase).backend
    assert backend.decode(backend.encode("Männer  läuft, õpetaja ").ids) == expected


def test_small_vocabulary_keeps_the_frequent_characters(tmp_path: Path) -> None:
    made = train_bpe(["eee eee eet", "q"], tmp_path, vocab_size=6, lowercase=False)
    assert set(made.backend.get_vocab()) - set(tokens.SPECIAL.values()) == {
        "▁",
        "e",
        "q",
    }  # q and t once: by code point
    assert made.backend.encode("et").tokens == ["[CLS]", "▁", "e", "[UNK]", "[SEP]"]


def test_no_text_trains_no_vocabulary(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no words to train a vocabulary on"):
        train_bpe(["", " \t", "▁"], tmp_path, vocab_size=100, lowercase=False)


def test_the_vocabulary_is_pinned(folder: Path) -> None:
    """A golden value: other versions of the library must not renumber the pieces."""
    ranked = sorted(tokens.load(folder).backend.get_vocab().items(), key=lambda item: item[1])
    assert [token for token, _ in ranked[:7]] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "'", ","]
    assert hashlib.sha256(repr(ranked).encode()).hexdigest()[:16] == "3b2a54949d4ea4e3"
