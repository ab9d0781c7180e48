"""The command that writes a model for people without isoscope."""

from pathlib import Path
from typing import Annotated

import typer

from isoscope.base.errors import InputError
from isoscope.platform.cli.once import GIVE_AWAY
from isoscope.platform.cli.options import Said, command, load
from isoscope.platform.cli.out_folders import check_free


@command(GIVE_AWAY)
def export(
    checkpoint: Annotated[Path, typer.Argument(help="Folder of a checkpoint of a run.")],
    out: Annotated[Path, typer.Argument(help="New folder for the exported model.")],
    plain: Annotated[bool, typer.Option("--plain", help="Only as a model of transformers, or not at all.")] = False,
    code: Annotated[bool, typer.Option("--code", help="With Python files, even where they are not needed.")] = False,
) -> Said:
    """Write a model as a folder that loads without isoscope. Works outside a project.

    Where the fusion is exactly an addition, the folder has a plain BERT, RoBERTa or encoder-decoder of transformers.
    Else it has the model's Python files, for from_pretrained(OUT, trust_remote_code=True). The tokenizer and a model
    card go along. The command then loads the folder in a process without isoscope and compares the outputs.

    Example: isoscope export models/fusion/conv2d/seed-0/checkpoints/epoch-4 given
    """
    if plain and code:
        raise InputError("--plain --code: give one of them, or neither")
    check_free(out, such_as="exported", key="OUT")
    asked = "plain" if plain else "code" if code else None
    made, reasons, checked = load("platform.stages.export").export(checkpoint, out, form=asked)
    form, how = ("code", ", trust_remote_code=True") if made.code else ("plain", "")
    exact = "bit by bit" if checked.difference == 0 else "up to rounding (sums in another order)"
    known = {
        "out": str(out),
        "form": form,
        "reasons": reasons,
        "loader": made.loader,
        "largest_difference": checked.difference,
        "outputs": list(checked.outputs),
        "values": checked.values,
    }
    line = (
        f"export: {out}: {form} ({'; '.join(reasons)})\n"
        f"  load: {made.loader}.from_pretrained({str(out)!r}{how})\n"
        f"  checked without isoscope: largest difference {checked.difference:.3g} over {checked.values:,} values of "
        f"{', '.join(checked.outputs)}: equal {exact}"
    )
    return known, line
