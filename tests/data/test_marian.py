"""Marian's tokenizer: the ids that transformers' slow tokenizer, by the library sentencepiece, gives."""

import json
import re
import shutil
from pathlib import Path

import pytest
import sentencepiece
from transformers import MarianTokenizer

from isoscope.base.errors import InputError
from isoscope.data import tokens
from marian_material import write_pieces

DOCS = Path(__file__).parents[2] / "docs"
HARD = [
    "",
    " ",
    "  two  spaces ",
    "Ünïcödé ﬁne ½",
    "quite unknown: 漢字 ☃☃ x",
    "a\tb",
    'don\'t. ("so")',
    "</s> in text",
    "…",
]
"""Texts that a tokenizer could read in several ways."""


@pytest.fixture(scope="module")
def texts() -> list[str]:
    lines = [line.strip() for page in sorted(DOCS.glob("*.md")) for line in page.read_text("utf-8").split("\n")]
    return [line for line in lines if len(line.split()) > 5]


@pytest.fixture(scope="module")
def marian(texts: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tokenizer of an invented translation model: a vocabulary of both languages, in an order of its own."""
    folder = tmp_path_factory.mktemp("marian")
    write_pieces(folder, texts)
    return folder


@pytest.fixture(scope="module")
def source(marian: Path) -> sentencepiece.SentencePieceProcessor:
    return sentencepiece.SentencePieceProcessor(model_file=str(marian / "source.spm"))


def test_ids_are_those_of_the_slow_tokenizer(
    marian: Path, source: sentencepiece.SentencePieceProcessor, texts: list[str]
) -> None:
    with pytest.warns(UserWarning, match="sacremoses"):
        theirs = MarianTokenizer.from_pretrained(marian)
    own = tokens.load(marian)
    assert (own.pad_id, own.vocab_size) == (theirs.pad_token_id, len(theirs.encoder))
    alphabet = "".join({*"".join(source.id_to_piece(place) for place in range(3, source.get_piece_size()))})
    runs = re.compile(rf"[^\s{re.escape(alphabet)}]{{2}}")  # characters in a row that source.spm lacks
    shared = [text for text in texts if not runs.search(text)]
    assert len(shared) > 0.9 * len(texts)
    names = {number: piece for piece, number in theirs.encoder.items()}
    tied = 0
    for text in (*shared, *HARD, ">>fra<< some text"):
        found, expected = own.backend.encode(text).ids, theirs(text)["input_ids"]
        if found != expected:  # only a word with two cuts that are equally likely, such as "0", "00" and "00", "0"
            scores = [sum(source.get_score(source.piece_to_id(names[one])) for one in ids) for ids in (found, expected)]
            assert scores[0] == pytest.approx(scores[1], abs=1e-4), text
            tied += 1
    assert tied < 0.01 * len(shared)
    found = [number for text in texts for number in own.backend.encode(text).ids]
    assert len({*found}) > 200
    assert theirs.unk_token_id in own.backend.encode("漢字").ids


def test_no_text_becomes_a_piece_of_the_target_language_alone(
    marian: Path, source: sentencepiece.SentencePieceProcessor
) -> None:
    ids = json.loads((marian / "vocab.json").read_text("utf-8"))
    known = {source.id_to_piece(place) for place in range(source.get_piece_size())}
    others = [piece for piece in ids if piece not in known and len(piece) > 1 and not piece.startswith((">>", "<"))]
    assert len(others) > 100
    backend = tokens.load(marian).backend
    for piece in others:
        assert ids[piece] not in backend.encode(piece.replace("▁", " ")).ids


def test_words_have_the_place_of_their_pieces(marian: Path, texts: list[str]) -> None:
    text = "  A good  translation model, of two languages."
    encoding = tokens.load(marian).backend.encode(text)
    shown = "".join(text[start:end] for start, end in encoding.offsets)
    assert shown.replace(" ", "") == text.replace(" ", "")


def test_damaged_files_are_refused(marian: Path, tmp_path: Path) -> None:
    for name in ("source.spm", "vocab.json"):
        shutil.copyfile(marian / name, tmp_path / name)
    (tmp_path / "vocab.json").write_text('{"</s>": 0, "<unk>": 1, "a": 5}', "utf-8")
    with pytest.raises(InputError, match=r"vocab\.json: not a vocabulary of Marian"):
        tokens.load(tmp_path)
    (tmp_path / "source.spm").write_bytes(b"\xff" * 40)
    with pytest.raises(InputError, match=r"source\.spm: not a SentencePiece model"):
        tokens.load(tmp_path)
