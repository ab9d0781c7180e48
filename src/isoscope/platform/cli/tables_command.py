"""The command that writes tables as files."""

from pathlib import Path
from typing import Annotated

import typer

from isoscope.base import paths
from isoscope.platform.cli.once import GIVE_AWAY
from isoscope.platform.cli.options import AsJson, app, configure, load, say


@app.command(rich_help_panel=GIVE_AWAY)
def tables(
    name: Annotated[str, typer.Argument(help="A study or comparison of params.yaml.")],
    to: Annotated[Path, typer.Option(help="Folder of the files; files of the same names are replaced.")],
    as_json: AsJson = False,
) -> None:
    """Write the tables of a study or comparison, and the data of its runs, for a page of results.

    Each table is a CSV file. A study also has runs.csv (every metric of validation and test, with digest and commit)
    and, for classifiers, items.parquet (whether each run predicted each test item correctly).

    Example: isoscope tables fusion --to docs/results/fusion
    """
    project, configuration = configure([])
    found = load("notebook").load(name, project=project.folder)
    made = {table: found.table(table) for table in found.tables}
    stage, outputs = load("platform.stages.result_tables"), []
    if study := configuration.root.studies.get(name):
        folders = [paths.trained(name, arm, seed) for arm in configuration.cells(name) for seed in study.seeds]
        outputs = [load("platform.outputs").read_output(project.folder / folder) for folder in folders]
        made["runs"] = stage.of_runs(outputs, project.records)
    written = [to / f"{table}.csv" for table in made]
    to.mkdir(parents=True, exist_ok=True)
    for file, rows in zip(written, made.values(), strict=True):
        file.write_text(load("platform.figures.csv_text").csv_text(rows), "utf-8")
    items = stage.correct_items(outputs)
    if len(items):
        written.append(to / "items.parquet")
        load("base.parquet").write_parquet(items, written[-1])
    say({"files": [*map(str, written)]}, as_json, f"tables {name}: {len(written)} files in {to}")
