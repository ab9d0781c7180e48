"""The tokenizer of an invented translation model, in Marian's files."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import sentencepiece


def write_pieces(folder: Path, texts: Sequence[str], *, size: int = 400) -> None:
    """Write source.spm, target.spm and vocab.json, which has the pieces of both in an order of its own.

    Every other text is the source; the others, in capitals and backwards, are the target. `size`: pieces of a side.
    """
    sides = {"source": texts[::2], "target": [" ".join(line.split()[::-1]).upper() for line in texts[1::2]]}
    pieces: set[str] = set()
    for side, lines in sides.items():
        made = sentencepiece.SentencePieceTrainer.train  # writes <side>.model
        made(
            sentence_iterator=iter(lines),
            model_prefix=str(folder / side),
            vocab_size=size,
            minloglevel=2,
            hard_vocab_limit=False,
        )
        shutil.move(folder / f"{side}.model", folder / f"{side}.spm")
        model = sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{side}.spm"))
        pieces |= {model.id_to_piece(place) for place in range(3, model.get_piece_size())}
    names = ["</s>", "<unk>", *sorted(pieces), ">>fra<<", "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({piece: number for number, piece in enumerate(names)}), "utf-8")
