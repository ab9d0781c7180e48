"""The command that makes a project."""

from pathlib import Path
from typing import Annotated

import typer

from isoscope.base.errors import InputError
from isoscope.platform.cli.once import BEGIN
from isoscope.platform.cli.options import Said, command, load


@command(BEGIN)
def new(
    folder: Annotated[Path, typer.Argument(help="The project: a new folder, or an empty one.")],
    text: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", help="Your text: csv, tsv, jsonl or parquet [default: generated text]."),
    ] = None,
    column: Annotated[str | None, typer.Option(help="Column of the text [default: text].")] = None,
    label: Annotated[str | None, typer.Option("--label", "--labels", help="Column of the classes.")] = None,
    profile: Annotated[str | None, typer.Option(help="A pre-trained encoder for your text: minilm or bert.")] = None,
) -> Said:
    """Make a project: a git and DVC repository with a first study that runs in minutes. Works outside a project.

    With classes, the study compares two fusions in a classifier; without, in a masked language model. The file is
    copied to texts/ in the project.

    Example: isoscope new my-study --from reviews.csv --column review --label stars
    """
    for option, value in (("column", column), ("label", label)):
        if text is None and value is not None:
            raise InputError(f"--{option} {value}: there is no file; name it with --from FILE")
    made = load("platform.stages.new").new(folder, text, column=column or "text", label=label, profile=profile)
    lines = [
        f"{folder}: a git and DVC repository with the task {made.task!r}; its README.md says what is where",
        *(f"note: {note}" for note in made.notes),
        "next:",
        *([] if folder.resolve() == Path.cwd() else [f"  cd {folder}"]),
        "  isoscope repro    # prepare, train, search, analyse; then see reports/index.html",
        "  isoscope ui       # the runs in MLflow",
        "  isoscope docs     # the documentation",
    ]
    return {"folder": str(folder), "task": made.task, "notes": made.notes}, "\n".join(lines)
