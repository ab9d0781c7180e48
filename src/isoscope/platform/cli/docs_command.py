"""The command that shows the documentation."""

import sys
from typing import Annotated

import typer

from isoscope.base.errors import InputError
from isoscope.platform.cli.once import BEGIN
from isoscope.platform.cli.options import AsJson, app, say


@app.command(rich_help_panel=BEGIN)
def docs(
    page: Annotated[str | None, typer.Argument(help="A page [default: list all pages].", metavar="PAGE")] = None,
    as_json: AsJson = False,
) -> None:
    """Show a page of the documentation, or list all pages. Works outside a project.

    Example: isoscope docs tutorial
    """
    from isoscope.platform.config.explain import nearest
    from isoscope.platform.config.new_project import source

    folder = source() / "docs"
    texts = {file.relative_to(folder).with_suffix("").as_posix(): file for file in sorted(folder.rglob("*.md"))}
    if page is None:
        titles = {name: file.read_text("utf-8").partition("\n")[0].lstrip("# ") for name, file in texts.items()}
        width = max(map(len, titles))
        lines = [f"  {name:{width}}  {title}" for name, title in titles.items()]
        say(titles, as_json, "\n".join(["isoscope docs PAGE:", *lines]))
        return
    if page not in texts:
        raise InputError(f"{page!r}: no such page{nearest(page, texts)}; for a list: isoscope docs")
    text = texts[page].read_text("utf-8")
    if as_json or not sys.stdout.isatty():
        say({"page": page, "text": text}, as_json, text.rstrip())
        return
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console()
    with console.pager(styles=True):
        console.print(Markdown(text))
