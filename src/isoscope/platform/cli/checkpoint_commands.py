"""Commands that make a page of any checkpoints. The science declares their options (`built_in.GIVEN`)."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from isoscope.base import built_in, environment
from isoscope.platform.cli.declared_options import declared
from isoscope.platform.cli.once import LOOK
from isoscope.platform.cli.options import Plugins, Said, command, load
from isoscope.platform.cli.out_folders import check_free

Checkpoints = Annotated[list[str], typer.Argument(help="Folders or hub names (name@revision).", metavar="CHECKPOINT…")]
Out = Annotated[Path, typer.Option(help="Folder for the page, the tables and the cache.")]


def page_command(name: str) -> Callable[..., None]:
    """Register the command of this name."""
    science = built_in.load(built_in.GIVEN, name)
    read = getattr(science, name)

    def made(
        checkpoints: Checkpoints,
        out: Out,
        plugin: Plugins = [],  # noqa: B006 - typer copies it
        **given: Any,
    ) -> Said:
        from isoscope import plugins

        for path in plugin:
            plugins.load(path)
        check_free(out, such_as=name)
        texts, make = read(**given)
        texts.check_enough()
        for note in filter(None, (texts.left_out, *texts.notes)):
            print(f"isoscope: {note}", file=sys.stderr)
        pages = load("platform.stages.page_folder")
        with pages.page_folder(out, name):
            environment.load(built_in.STAGES[name])
            tables, facts = make(checkpoints, out / "cache")
            pages.write_page(out, name, facts, tables)
            shown = load("platform.report.checkpoint_page").page(out)
        found = {
            "summary": load("platform.report.checkpoint_page").text_of(name, tables, facts).data.get("summary", []),
            "checkpoints": facts["given"],
            "page": str(shown),
            "tables": sorted(map(str, out.glob("*.parquet"))),
            "left_out": texts.left_out,
        }
        return found, f"{name}: {shown}"

    made.__doc__ = read.__doc__
    return command(LOOK, name=name, options=declared(read, science.OPTIONS[name]))(made)


geometry, spaces = page_command("geometry"), page_command("spaces")
