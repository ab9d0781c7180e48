"""Commands that write models and tables for people without the project."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from isoscope.base import paths
from isoscope.base.errors import InputError
from isoscope.platform.cli.options import GIVE_AWAY, Here, Said, command, load
from isoscope.platform.cli.out_folders import check_free


@command(GIVE_AWAY)
def export(
    checkpoint: Annotated[Path, typer.Argument(help="Folder of a checkpoint of a run.")],
    out: Annotated[Path, typer.Argument(help="New folder for the exported model.")],
    plain: Annotated[bool, typer.Option("--plain", help="Only as a model of transformers, or not at all.")] = False,
    code: Annotated[bool, typer.Option("--code", help="With Python files, even where they are not needed.")] = False,
) -> Said:
    """Write a model as a folder that loads without isoscope. Works outside a project.

    Where the fusion is exactly an addition, the folder has a plain model of transformers, such as BERT. Else it has the
    model's Python files, for from_pretrained(OUT, trust_remote_code=True). The tokenizer and a model card go along. The
    command then loads the folder in a process without isoscope and compares the outputs.

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


@command(GIVE_AWAY)
def convert(
    folder: Annotated[
        Path, typer.Argument(help="Folder of a Hugging Face checkpoint; it stays as it is.", metavar="IN")
    ],
    out: Annotated[Path, typer.Argument(help="New folder for the converted checkpoint.", metavar="OUT")],
) -> Said:
    """Convert pickled weights and slow tokenizers of a checkpoint, so that isoscope reads it.

    pytorch_model.bin, also in parts, becomes model.safetensors. A pickle may hold code, so it is read in a process that
    runs none of it and has no network; it writes only in OUT. It needs Linux 5.13 or newer. SentencePiece models and
    slow tokenizers become tokenizer.json. Their ids are compared with those of the original on texts in ten languages;
    a difference is an error. Works outside a project.

    Example: isoscope convert ./deberta-v3-base ./deberta
    """
    check_free(out, such_as="converted", key="OUT")
    told = load("platform.stages.export").convert(folder, out)
    return {"out": str(out), "converted": told}, "\n  ".join([f"convert: {out}", *told])


@command(GIVE_AWAY)
def tables(
    here: Here,
    name: Annotated[str, typer.Argument(help="A study or comparison of params.yaml.")],
    to: Annotated[Path, typer.Option(help="Folder of the files; files of the same names are replaced.")],
    form: Annotated[Literal["csv", "latex", "markdown"], typer.Option("--format", help="Of the tables.")] = "csv",
    figures: Annotated[Literal["svg", "png", "pdf"] | None, typer.Option(help="Also the figures.")] = None,
) -> Said:
    """Write the tables of a study or comparison, and the data of its runs, for a page of results or a paper.

    Each table is a CSV file. LaTeX and Markdown mark each difference by its verdict; tables of more than 200 rows stay
    CSV files. A study also has runs.csv (every metric of validation and test, also after training, and the seconds of
    work, with digest and commit; and the task's baselines, which have no seed) and, if texts have a class or a score,
    predictions.parquet (class or score of each test item, and each run's prediction).

    Example: isoscope tables fusion --to paper --format latex --figures pdf
    """
    project, configuration, *_ = here
    if to.exists() and not to.is_dir():
        raise InputError(f"--to {to}: is not a folder; give another name")
    check_free(to, such_as="paper", key="--to")
    found = load("notebook").load(name, project=project.folder)
    made = {table: found.table(table) for table in found.tables}
    stage, outputs = load("platform.stages.result_tables"), []
    if study := configuration.root.studies.get(name):
        folders = [paths.trained(name, arm, seed) for arm in configuration.cells(name) for seed in study.seeds]
        outputs = [load("platform.outputs").read_output(project.folder / folder) for folder in folders]
        manifest = project.folder / paths.processed(study.task) / "manifest.json"
        made["runs"] = stage.of_runs(outputs, project.records, manifest)
    try:
        to.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--to {to}: cannot be made ({error.strerror}); give another folder") from None
    written = [stage.write_table(rows, to / table, "csv" if table == "runs" else form) for table, rows in made.items()]
    written += stage.write_figures(found.folder, found.kind, to, figures)
    items = stage.predicted_items(outputs)
    if len(items):
        written.append(to / "predictions.parquet")
        load("base.parquet").write_parquet(items, written[-1])
    return {"files": [*map(str, written)]}, f"tables {name}: {len(written)} files in {to}"
