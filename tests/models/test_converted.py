"""`isoscope convert`: weights equal to the pickled ones, ids equal to those of the original tokenizer, whole or not."""

import io
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch
from safetensors.torch import load_file
from transformers import AlbertConfig, AlbertForMaskedLM, BertConfig, BertModel, GPT2Config, GPT2Model

from isoscope.data import tokens
from isoscope.data.checkpoints import checkpoint_digest
from isoscope.models import slow_tokenizers
from isoscope.models.encoder import load_encoder
from isoscope.platform.stages.export import convert
from marian_material import write_pieces
from refused import refused

WORDS = ["the", "cat", "sat", "on", "a", "mat", "and", "dogs", "ran", "far", "away", "from", "every", "old"]
WORDS += ["house", "near", "our", "green", "river", "bank", "today"]
SENTENCES = [
    " ".join(WORDS[(3 * number + 7 * place + place * place) % len(WORDS)] for place in range(3 + number % 9))
    for number in range(200)
] + list(slow_tokenizers.TEXTS[:6])
UNIGRAM = {"model_type": "unigram"}
BYTES = {"model_type": "bpe", "byte_fallback": True}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "albert": ("spiece.model", {**UNIGRAM, "pad_id": 0, "unk_id": 1, "bos_id": -1, "eos_id": -1}
        | {"user_defined_symbols": ["[CLS]", "[SEP]", "[MASK]"]}),
    "xlm-roberta": ("sentencepiece.bpe.model", UNIGRAM),
    "camembert": ("sentencepiece.bpe.model", UNIGRAM),
    "t5": ("spiece.model", {**UNIGRAM, "pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}),
    "deberta-v2": ("spm.model", {**UNIGRAM, "pad_id": 0, "bos_id": 1, "eos_id": 2, "unk_id": 3}
        | {"pad_piece": "[PAD]", "bos_piece": "[CLS]", "eos_piece": "[SEP]", "unk_piece": "[UNK]"}),
    "xlnet": ("spiece.model", {**UNIGRAM, "control_symbols": ["<cls>", "<sep>", "<pad>", "<mask>"]}),
    "mbart": ("sentencepiece.bpe.model", UNIGRAM),
    "llama": ("tokenizer.model", BYTES),
    "gemma": ("tokenizer.model", {**BYTES, "add_dummy_prefix": False, "remove_extra_whitespaces": False}),
}  # fmt: skip
"""Model type → the file of its SentencePiece model, and how such models are trained."""
OFFSETS = {"xlm-roberta": 1, "mbart": 1, "camembert": 4}


def write_sentencepiece(folder: Path, family: str) -> None:
    name, options = FAMILIES[family]
    written = io.BytesIO()
    train: Callable[..., None] = sentencepiece.SentencePieceTrainer.train
    train(
        sentence_iterator=iter(SENTENCES), model_writer=written, vocab_size=380, minloglevel=2, hard_vocab_limit=False,
        **options,
    )  # fmt: skip
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(written.getvalue())


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def albert(tmp_path: Path) -> Iterator[Path]:
    """A folder as they are given away: pickled tied weights and a SentencePiece model; it must stay as it is."""
    folder = tmp_path / "albert"
    write_sentencepiece(folder, "albert")
    sizes = {"hidden_size": 16, "embedding_size": 16, "num_attention_heads": 2, "intermediate_size": 32}
    torch.manual_seed(0)
    model = AlbertForMaskedLM(AlbertConfig(vocab_size=400, max_position_embeddings=64, **sizes))
    model.config.save_pretrained(folder)
    weights = model.state_dict()
    tied = "albert.embeddings.word_embeddings.weight", "predictions.decoder.weight"
    assert weights[tied[0]].data_ptr() == weights[tied[1]].data_ptr()
    torch.save(weights, folder / "pytorch_model.bin")  # noqa: TID251 - what others give away
    before = files(folder)
    yield folder
    assert files(folder) == before


def test_a_folder_of_pickles_and_pieces_becomes_a_checkpoint(albert: Path, tmp_path: Path) -> None:
    told = convert(albert, out := tmp_path / "out")
    assert told[0].startswith("weights: ")
    assert told[1] == "tokenizer.json: equal ids to sentencepiece (spiece.model)"
    expected = torch.load(albert / "pytorch_model.bin", weights_only=True)  # noqa: TID251 - the oracle
    found = load_file(out / "model.safetensors")
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], value) for name, value in expected.items())
    word = load_encoder(out).embeddings.word_embeddings.weight
    assert torch.equal(word, expected["albert.embeddings.word_embeddings.weight"])
    assert tokens.load(out).backend.encode("the cat").tokens[:2] == ["[CLS]", "▁the"]
    assert not list(out.glob("*.bin"))
    with refused("OUT .*: holds something already"):
        convert(albert, out)


@pytest.mark.parametrize("index", [True, False])
def test_weights_in_parts_get_an_index(albert: Path, tmp_path: Path, index: bool) -> None:
    source = tmp_path / "parts"
    shutil.copytree(albert, source)
    (source / "pytorch_model.bin").unlink()
    weights = torch.load(albert / "pytorch_model.bin", weights_only=True)  # noqa: TID251 - the oracle
    names, listed = sorted(weights), {}
    for number, part in enumerate((names[::2], names[1::2]), start=1):
        file = f"pytorch_model-{number:05}-of-00002.bin"
        torch.save({name: weights[name] for name in part}, source / file)  # noqa: TID251 - what others give away
        listed |= dict.fromkeys(part, file)
    if index:
        given = {"metadata": {}, "weight_map": listed}
        (source / "pytorch_model.bin.index.json").write_text(json.dumps(given))
    convert(source, out := tmp_path / "out")
    found = json.loads((out / "model.safetensors.index.json").read_text())["weight_map"]
    assert found == {
        name: file.replace("pytorch_", "").replace(".bin", ".safetensors") for name, file in listed.items()
    }
    read = {name: value for file in {*found.values()} for name, value in load_file(out / file).items()}
    assert all(torch.equal(read[name], value) for name, value in weights.items())
    checkpoint_digest(out)
    load_encoder(out)


def test_weights_that_are_not_whole_are_refused(albert: Path, tmp_path: Path) -> None:
    """A part alone, and a tensor in two files; a file of another name is none of the parts."""
    source = tmp_path / "parts"
    shutil.copytree(albert, source)
    whole = (source / "pytorch_model.bin").rename(source / "pytorch_model-00001-of-00002.bin")
    shutil.copyfile(whole, source / "pytorch_model_old.bin")
    with refused(r"no whole weights: .*there is pytorch_model-00001-of-00002\.bin, pytorch_model_old\.bin"):
        convert(source, tmp_path / "out")
    shutil.copyfile(whole, source / "pytorch_model-00002-of-00002.bin")
    with refused(r"two files have the tensor .*leave one of them there"):
        convert(source, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_failure_leaves_nothing(albert: Path, tmp_path: Path) -> None:
    source = tmp_path / "broken"
    shutil.copytree(albert, source)
    (source / "pytorch_model.bin").write_bytes((albert / "pytorch_model.bin").read_bytes()[:5000])
    with refused(r"pytorch_model.bin: not plain weights .*nothing is written"):
        convert(source, tmp_path / "out")
    shutil.copyfile(albert / "pytorch_model.bin", source / "pytorch_model.bin")
    (source / "spiece.model").write_bytes(b"no model")
    with refused("broken: transformers cannot read its tokenizer"):
        convert(source, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["albert", "broken"]


@pytest.mark.parametrize("held, said", [
    ({"epoch": 3, "weight": torch.ones(2)}, "epoch is a int, no tensor"),
    ({"model": {"weight": torch.ones(2)}}, "model is a dict, no tensor"),
    ([torch.ones(2)], "it holds a list, no tensors by name"),
])  # fmt: skip
def test_other_contents_than_weights_are_named(albert: Path, tmp_path: Path, held: Any, said: str) -> None:
    source = tmp_path / "other"
    shutil.copytree(albert, source)
    torch.save(held, source / "pytorch_model.bin")  # noqa: TID251 - what others give away
    with refused(rf"not plain weights \({said}\)"):
        convert(source, tmp_path / "out")


@pytest.mark.parametrize("family", FAMILIES)
def test_ids_are_those_of_sentencepiece(tmp_path: Path, family: str) -> None:
    """Computed here from the library's own ids, on other texts than the conversion compares."""
    write_sentencepiece(tmp_path, family)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": family}))
    called = slow_tokenizers.convert_tokenizer(tmp_path, tmp_path / "tokenizer.json")
    assert called == f"sentencepiece ({FAMILIES[family][0]})"
    backend = tokens.load(tmp_path, padded=False).backend
    model = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / FAMILIES[family][0]))
    unknown = next(number for name in ("<unk>", "[UNK]") if (number := backend.token_to_id(name)) is not None)
    for text in ("every old cat ran", "a  mat  today", "dogs\tran: ½ ﬁne Ⅳ", "river 🙂 bank 漢字!", "É cafÉ"):
        plain = text if family != "albert" else text.lower().replace("é", "e").replace("½", "1⁄2")
        plain = plain if family != "xlnet" else text.replace("É", "E")
        expected = [unknown if one == model.unk_id() else one + OFFSETS.get(family, 0) for one in model.encode(plain)]
        assert backend.encode(text, add_special_tokens=False).ids == expected, text


def test_other_ids_are_an_error_with_the_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_sentencepiece(tmp_path, "xlm-roberta")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "xlm-roberta"}))
    monkeypatch.setitem(slow_tokenizers._OFFSETS, "XLMRoberta", 2)
    with refused(r"not equal to sentencepiece \(.*\): for 'The quick brown fox .* it gives \[.*the original \["):
        slow_tokenizers.convert_tokenizer(tmp_path, tmp_path / "tokenizer.json")
    assert not (tmp_path / "tokenizer.json").exists()


@pytest.mark.parametrize("lowercase", [True, False])
def test_a_vocabulary_of_bert(tmp_path: Path, lowercase: bool) -> None:
    source = tmp_path / "bert"
    BertModel(BertConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=1, vocab_size=64)).save_pretrained(
        source
    )
    letters = [*"abcdefghijklmnopqrstuvwxyzTHE", *(f"##{one}" for one in "abcdefghinorstuHEé"), "the", "cat", ".", "é"]
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters]
    (source / "vocab.txt").write_text("\n".join(vocabulary) + "\n", "utf-8")
    options = {"tokenizer_class": "BertTokenizer", "do_lower_case": lowercase, "strip_accents": False}
    (source / "tokenizer_config.json").write_text(json.dumps(options))
    (told,) = convert(source, out := tmp_path / "out")
    assert told == "tokenizer.json: equal ids to BERT's tokenizer in Python (vocab.txt)"
    ours, original = (tokens.load(one).backend.encode("THE Café cat.").tokens for one in (out, source))
    assert ours == original  # isoscope reads vocab.txt by itself
    assert ours[1] == ("the" if lowercase else "T")


def test_a_vocabulary_with_merges(tmp_path: Path) -> None:
    source = tmp_path / "gpt2"
    sizes = {"n_embd": 8, "n_layer": 1, "n_head": 1, "n_positions": 32}
    GPT2Model(GPT2Config(vocab_size=300, **sizes)).save_pretrained(source)
    from tokenizers import pre_tokenizers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {piece: number for number, piece in enumerate([*letters, "th", "the", "Ġthe", "Ġt", "<|endoftext|>"])}
    (source / "vocab.json").write_text(json.dumps(vocabulary), "utf-8")
    (source / "merges.txt").write_text("#version: 0.2\nt h\nth e\nĠ the\n", "utf-8")
    (told,) = convert(source, out := tmp_path / "out")
    assert told == "tokenizer.json: equal ids to transformers' GPT2Tokenizer"
    assert tokens.load(out, padded=False).backend.encode("the the").tokens == ["the", "Ġthe"]
    with refused("nothing to convert"):
        convert(out, tmp_path / "again")


def test_a_marian_tokenizer_is_copied(tmp_path: Path) -> None:
    source = tmp_path / "marian"
    source.mkdir()
    write_pieces(source, SENTENCES * 2)
    model = BertModel(BertConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=1, vocab_size=64))
    model.config.save_pretrained(source)
    torch.save(model.state_dict(), source / "pytorch_model.bin")  # noqa: TID251 - what others give away
    (told,) = convert(source, out := tmp_path / "out")
    assert told.startswith("weights: ")
    assert {"source.spm", "vocab.json", "config.json", "model.safetensors"} <= files(out).keys()


@pytest.mark.parametrize("held, said", [
    ((), "no tokenizer: expected"),
    (("vocab.json",), "no tokenizer: expected"),
    (("vocab.txt",), "CanineTokenizer has no fast form"),
])  # fmt: skip
def test_a_tokenizer_that_cannot_be_converted_is_named(tmp_path: Path, held: tuple[str, ...], said: str) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "canine"}))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "CanineTokenizer"}))
    for name in held:
        (tmp_path / name).write_text("{}")
    with refused(said):
        slow_tokenizers.convert_tokenizer(tmp_path, tmp_path / "tokenizer.json")
