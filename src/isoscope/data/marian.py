"""Read the tokenizer of a Marian translation model (opus-mt), which transformers has only in a slow form."""

from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from isoscope.base.errors import InputError
from isoscope.data.files import read_mapping

SOURCE, VOCABULARY = "source.spm", "vocab.json"
END, UNKNOWN, PADDING = "</s>", "<unk>", "<pad>"
UNIGRAM, NORMAL = 1, 1
"""SentencePiece's numbers of the model and of pieces that text may become."""
SINGLE_SPACES = [normalizers.Replace(Regex(" {2,}"), " "), normalizers.Strip()]
"""SentencePiece's removal of further spaces."""
ONLY_TARGET = "\0"
"""Before a piece of the target language alone: no normalised text has this character, so no text becomes the piece."""


def marian_tokenizer(folder: Path) -> Tokenizer:
    """Return the tokenizer of the source language: pieces of source.spm with the ids of vocab.json, then </s>.

    Equal to `MarianTokenizer` without sacremoses, except for rare kinds of text. Pieces of source.spm that
    vocab.json lacks are <unk> there, and are cut into other pieces here. Several characters in a row that source.spm
    lacks are one token there, and a token each here if vocab.json has them. Equally likely cuts of a word may differ.
    Raises `InputError` if a file is missing or damaged, or for another kind of SentencePiece model.
    """
    proto, ids = sentencepiece_model(folder / SOURCE), read_mapping(folder / VOCABULARY)
    if proto.trainer_spec.model_type != UNIGRAM or proto.trainer_spec.byte_fallback:
        raise InputError(
            f"{folder / SOURCE}: not a unigram model of SentencePiece without bytes, the only kind that opus-mt has"
        )
    names = sorted(ids, key=lambda piece: ids[piece])
    if [ids[piece] for piece in names] != list(range(len(names))) or not {END, UNKNOWN, PADDING} <= ids.keys():
        raise InputError(
            f"{folder / VOCABULARY}: not a vocabulary of Marian: numbers 0, 1, … with {END}, {UNKNOWN}, {PADDING}"
        )
    scores = {piece.piece: piece.score for piece in proto.pieces if piece.type == NORMAL}
    special = {END, UNKNOWN, PADDING, *(piece for piece in names if piece.startswith(">>") and piece.endswith("<<"))}
    read = scores.keys() | special | {piece for piece in names if len(piece) == 1}
    pieces = [(piece if piece in read else ONLY_TARGET + piece, scores.get(piece, 0.0)) for piece in names]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=ids[UNKNOWN], byte_fallback=False))
    tokenizer.add_special_tokens([AddedToken(piece, normalized=False, special=True) for piece in sorted(special)])
    tokenizer.normalizer = normalizers.Sequence(charsmap(proto) + SINGLE_SPACES)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.post_processor = processors.TemplateProcessing(single=f"$A {END}", special_tokens=[(END, ids[END])])
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    return tokenizer


def charsmap(proto: Any) -> list[Any]:
    """Return the normalisation of characters of a SentencePiece model; empty if it has none."""
    found = proto.normalizer_spec.precompiled_charsmap
    return [normalizers.Precompiled(found)] if found else []


def sentencepiece_model(file: Path) -> Any:
    """Read a SentencePiece model. Raises `InputError` for another file."""
    from transformers.convert_slow_tokenizer import import_protobuf  # slow to import, and rarely needed

    proto: Any = import_protobuf().ModelProto()  # the type's definition may exist once per process
    try:
        proto.ParseFromString(file.read_bytes())
    except Exception as error:  # protobuf's own, which has no public name
        raise InputError(f"{file}: not a SentencePiece model: {error}") from None
    return proto
