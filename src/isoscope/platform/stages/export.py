"""Models as folders: `isoscope export` for transformers without isoscope, `isoscope convert` for isoscope."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from isoscope.base import built_in
from isoscope.base.atomic_files import replacing
from isoscope.base.errors import InputError
from isoscope.platform.runs.card import CARD, TRAINING, auto_class, front_matter
from isoscope.platform.runs.locks import writing

_PLAIN = "The model is of transformers' own architecture: the fusion of its embeddings is an addition.\n"
_CODE = """The folder holds the model's Python code, which needs torch, transformers below 5.24 and annotated-types.
Licence: Apache-2.0.
`trust_remote_code=True` runs this code: read it first, as any code that you are given.
"""


def export(folder: Path, out: Path, *, form: str | None) -> tuple[Any, list[str], Any]:
    """Write the model of a checkpoint to the new folder `out`, and compare both models on a few texts.

    `form` plain: transformers' own class; code: with isoscope's Python files; None: plain where this is exact. Returns
    the export, why it has its form, and the check of its outputs (`isoscope.models.exported`). Raises
    `InputError` if `folder` has no model of isoscope, if `form` is impossible, or if `out` holds something; `RunError`
    if the written model computes something else.
    """
    _check_new(out)
    science = built_in.load(built_in.STAGES, "export")
    model = science.read_model(folder)
    with new_folder(out) as fresh:
        made = {"loader": auto_class(type(model).__name__), "form": form}
        exported, reasons = science.write(model, folder, fresh, **made)
        (fresh / CARD).write_text(_card(exported, folder), "utf-8")
        (checked,) = science.check([exported])
    return exported, reasons, checked


def convert(folder: Path, out: Path) -> list[str]:
    """Write the checkpoint in `folder` to the new folder `out` as isoscope reads it; return what was converted.

    Raises `InputError` as `isoscope.models.converted.convert`, and if `out` holds something.
    """
    _check_new(out)
    if not folder.is_dir():
        raise InputError(f"IN {folder}: no such folder")
    science = built_in.load(built_in.STAGES, "convert")
    with new_folder(out) as fresh:
        told: list[str] = science.convert(folder, fresh)
    return told


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """Yield a folder to fill, which becomes `out` if nothing fails, and is removed otherwise."""
    fresh = None
    _check_new(out)
    with writing(out, called=f"OUT {out}"):
        _check_new(out)
        try:
            with replacing(out, "table") as fresh:
                yield fresh
        finally:
            if fresh is not None:
                shutil.rmtree(fresh, ignore_errors=True)


def _check_new(out: Path) -> None:
    if not out.name.strip("."):  # the working folder, or one above it
        raise InputError(f"OUT {out}: give the name of a new folder")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"OUT {out}: holds something already; give a new folder")


def _card(one: Any, source: Path) -> str:
    """Return the text of an export's card; it takes over the part on the training from the checkpoint's card."""
    trust = ", trust_remote_code=True" if one.code else ""
    text = front_matter(one.loader) + f"# A `{type(one.model).__name__}` of isoscope\n\n"
    text += f"{_CODE if one.code else _PLAIN}\n## Load\n\n```python\n"
    text += f"from transformers import {one.loader}, AutoTokenizer\n\n"
    text += f'model = {one.loader}.from_pretrained("FOLDER"{trust})\n'
    text += f'tokenizer = AutoTokenizer.from_pretrained("FOLDER"{trust})\n```\n'
    card = source / CARD
    _, found, training = card.read_text("utf-8").partition(TRAINING) if card.is_file() else ("", "", "")
    return text + (f"\n{found}{training}" if found else "")
