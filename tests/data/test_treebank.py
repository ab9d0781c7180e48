"""Words of a treebank have the right tags and depths; invalid trees are refused."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from isoscope.base.errors import InputError
from isoscope.data import treebank
from isoscope.data.hub import find_file
from isoscope.data.tokens import Tokenizer
from probe_material import byte_level, pieces

TREE = {
    "tokens": [["the", "slow", "film", "moved", "everybody"], ["no", "plot"]],
    "upos": [["DET", "ADJ", "NOUN", "VERB", "PRON"], ["DET", "NOUN"]],
    "head": [[3, 3, 4, 0, 4], [2, 0]],
}


def write(folder: Path, **changes: object) -> Path:
    path = folder / "bank.parquet"
    pq.write_table(pa.table({name: column for name, column in (TREE | changes).items() if column}), path)
    return path


def read(path: Path, **changes: int) -> treebank.Treebank:
    options = {"sentences": 10, "max_length": 30, "seed": 0} | changes
    return treebank.read(path, pieces(path.parent / "tokenizer"), **options)


def test_words_have_their_tags_and_depths(tmp_path: Path) -> None:
    bank = read(write(tmp_path))
    found = {text: (tag, depth) for text, tag, depth in zip(bank.text, bank.tag, bank.depth.tolist(), strict=True)}
    assert found == {
        "the": ("DET", 2),
        "slow": ("ADJ", 2),
        "film": ("NOUN", 1),
        "moved": ("VERB", 0),
        "everybody": ("PRON", 1),
        "no": ("DET", 1),
        "plot": ("NOUN", 0),
    }
    one = [text for text, sentence in zip(bank.text, bank.sentence, strict=True) if sentence == bank.sentence[0]]
    assert one in TREE["tokens"]
    assert (bank.end > bank.begin).all()


@pytest.mark.parametrize("none", ["None", None, "_"])
def test_entries_without_a_head_are_no_words(tmp_path: Path, none: str | None) -> None:
    """Multiword tokens, whose words follow, and empty nodes, as the hub's treebanks have them; no head counts them."""
    tree = {
        "tokens": [["the", "slow", "film", "movedeverybody", "moved", "everybody"], ["no", "plot", "plot"]],
        "upos": [["DET", "ADJ", "NOUN", "_", "VERB", "PRON"], ["DET", "NOUN", "_"]],
        "head": [["3", "3", "4", none, "0", "4"], ["2", "0", none]],
    }
    (tmp_path / "plain").mkdir()
    assert_same(read(write(tmp_path, **tree)), read(write(tmp_path / "plain")))


@pytest.mark.parametrize("none", ["None", None, "_"])
def test_tags_leave_out_the_same_entries_and_need_no_tree(tmp_path: Path, none: str | None) -> None:
    tree = {
        "tokens": [["movedeverybody", "moved", "everybody"], []],
        "upos": [["_", "VERB", "PRON"], []],
        "head": [[none, "0", "7"], []],
    }
    path = write(tmp_path, **tree)
    assert treebank.tagged(path) == [(["moved", "everybody"], ["VERB", "PRON"]), ([], [])]
    path = write(tmp_path, **tree | {"head": None})
    assert treebank.tagged(path)[0] == (tree["tokens"][0], tree["upos"][0]), "without heads every entry is a word"


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"upos": [["DET"], ["DET", "NOUN"]]}, "bank.parquet, row 1: 5 tokens, 1 tags, 5 heads$"),
        ({"upos": [["DET"], ["DET", "NOUN"]], "head": None}, "bank.parquet, row 1: 5 tokens, 1 tags$"),
        ({"upos": [[1, 2, 3, 4, 5], [1, 2]]}, "row 1: 1 is not text; tokens and upos must be lists of strings$"),
    ],
)
def test_tags_that_cannot_be_told_are_refused(tmp_path: Path, changes: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        treebank.tagged(write(tmp_path, **changes))


def test_files_without_lists_of_tokens_and_tags_are_no_treebank(tmp_path: Path) -> None:
    assert {treebank.tagged(write(tmp_path, upos=upos)) for upos in (None, ["DET NOUN", "DET"])} == {None}
    assert treebank.tagged(tmp_path / "no.parquet") is None
    (tmp_path / "bank.parquet").write_text("1\tthe\n", "utf-8")
    assert treebank.tagged(tmp_path / "bank.parquet") is None
    with pytest.raises(InputError, match=r"bank\.parquet: not valid parquet"):
        read(tmp_path / "bank.parquet")


def assert_same(one: treebank.Treebank, other: treebank.Treebank) -> None:
    for name in ("sentence", "begin", "end", "text", "tag", "depth"):
        assert list(getattr(one, name)) == list(getattr(other, name))


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"upos": None}, "no column upos"),
        ({"upos": [["DET"], ["DET", "NOUN"]]}, "5 tokens, 1 tags"),
        ({"head": [[2, 1, 4, 0, 4], [2, 0]]}, "are not a tree"),
        ({"head": [[3, 3, 9, 0, 4], [2, 0]]}, "are not a tree"),
        ({"head": [["3", "3", "x", "0", "4"], ["2", "0"]]}, "are not all numbers"),
        ({"head": [[3.0, 3.0, 2.7, 0.0, 4.0], [2.0, 0.0]]}, "are not all numbers"),
        ({"head": [[[3], [3], [4], [0], [4]], [[2], [0]]]}, "are not all numbers"),
        ({"tokens": [["the", None, "film", "moved", "everybody"], ["no", "plot"]]}, "None is not text"),
        ({"upos": [["DET", "ADJ", None, "VERB", "PRON"], ["DET", "NOUN"]]}, "None is not text"),
    ],
)
def test_what_is_no_treebank_is_refused(tmp_path: Path, changes: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        read(write(tmp_path, **changes))


def test_words_have_spaces_between_them_for_a_tokenizer_that_reads_spaces(tmp_path: Path) -> None:
    """GPT-2's and RoBERTa's begin a word with its space, and without spaces the sentence is a single word."""
    backend = byte_level()
    bank = treebank.read(write(tmp_path), Tokenizer(backend, 0, 300), sentences=2, max_length=64, seed=0)
    known = {" ".join(words): words for words in TREE["tokens"]}
    for number, ids in enumerate(bank.encoded.ids):
        text = "".join(backend.id_to_token(one) for one in ids).replace("Ġ", " ")
        here = np.flatnonzero(bank.sentence == number)
        assert [bank.text[place] for place in here] == known[text]
        for place in here:
            assert text[bank.begin[place] : bank.end[place]].strip() == bank.text[place]


def test_sentences_that_do_not_fit_are_left_out(tmp_path: Path) -> None:
    assert len(read(write(tmp_path), max_length=6).encoded.ids) == 1
    with pytest.raises(InputError, match="no sentence with two or more words fits into 3 tokens"):
        read(write(tmp_path), max_length=3)


def test_a_treebank_is_found_in_the_project_or_the_hub_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hub/bank").mkdir(parents=True)
    write(tmp_path / "hub/bank").rename(tmp_path / "hub/bank/test.parquet")
    monkeypatch.setenv("ISOSCOPE_HUB", str(tmp_path / "hub"))
    assert find_file("bank", tmp_path, key="extraction.treebank") == tmp_path / "hub/bank/test.parquet"
    with pytest.raises(InputError, match=r"extraction.treebank: 'other': no such file"):
        find_file("other", tmp_path, key="extraction.treebank")
