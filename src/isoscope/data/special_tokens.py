"""The special tokens of any tokenizer: before and after a text, and in place of a hidden word."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from isoscope.base.errors import InputError
from isoscope.data.tokens import BEGINS, ENDS, Encoded, Tokenizer, declared, first_of


class Specials(NamedTuple):
    """Ids of the special tokens: padding, before a text, after a text."""

    pad: int
    begin: int
    end: int


def specials(tokenizer: Tokenizer, folder: Path) -> Specials:
    """Return the special tokens of the tokenizer in `folder`. Raises `InputError` if its vocabulary lacks one."""
    vocabulary, found = tokenizer.backend.get_vocab(), [tokenizer.pad_id]
    for names, roles in ((BEGINS, ("cls_token", "bos_token")), (ENDS, ("sep_token", "eos_token"))):
        known = [*names[:2], *declared(folder, *roles), *names[2:]]
        if (number := first_of(vocabulary, known)) is None:
            raise InputError(f"{folder.name}: its vocabulary has neither {names[0]} nor {names[1]}")
        found.append(number)
    return Specials(*found)


def mask_of(tokenizer: Tokenizer, folder: Path) -> int:
    """Return the id of the token that hides a word. Raises `InputError` if the tokenizer has none."""
    names = ["[MASK]", "<mask>", *declared(folder, "mask_token")]
    if (number := first_of(tokenizer.backend.get_vocab(), names)) is None:
        raise InputError(f"{folder.name}: its vocabulary has neither [MASK] nor <mask>")
    return number


def framed(texts: Encoded, marks: Specials) -> Encoded:
    """Return texts with the tokens before and after a text, where their tokenizer does not put them."""
    ids = []
    for one in texts.ids:
        before = [] if one[:1].tolist() == [marks.begin] else [marks.begin]
        after = [] if one[1:][-1:].tolist() == [marks.end] else [marks.end]
        ids.append(np.concatenate([before, one, after]).astype(np.int32))
    return texts._replace(ids=ids, type_ids=[np.zeros_like(one) for one in ids])
