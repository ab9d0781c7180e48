"""Commands in groups, which refuse an option of one value that is given twice: click would keep the last in silence."""

from collections import Counter
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from isoscope.base.errors import InputError

HEADINGS = BEGIN, RUN, LOOK, HYPERPARAMETERS, GIVE_AWAY, KEEP_HOUSE = (
    *("Begin", "Run the pipeline and its stages", "Look at models and runs", "Search hyperparameters"),
    *("Give away", "Keep house"),
)
"""What commands are for, in the order of the help."""


class _Command(TyperCommand):
    """A command with each option of one value, and each flag, at most once on its line."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _, _, order = self.make_parser(ctx).parse_args(args=[*args])
        for option, times in Counter(order).items():
            if times > 1 and option.param_type_name == "option" and not option.multiple:
                raise InputError(
                    f"{'/'.join((*option.opts, *option.secondary_opts))}: given {times} times; give it once "
                    f"(see: {ctx.command_path} --help)"
                )
        return super().parse_args(ctx, args)


class _Grouped(TyperGroup):
    """Lists its commands by what they are for."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        shown = {name: command for name, command in self.commands.items() if not command.hidden}
        limit = formatter.width - 6 - max(map(len, shown))
        groups: dict[str, list[tuple[str, str]]] = {heading: [] for heading in (*HEADINGS, "Commands")}
        for name, command in shown.items():
            heading = getattr(command, "rich_help_panel", None) or "Commands"
            groups[heading].append((name, command.get_short_help_str(limit)))
        for heading, rows in groups.items():
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)


class Commands(typer.Typer):
    """An application, or a group of commands, whose options are given once."""

    def __init__(self, **given: Any) -> None:
        super().__init__(cls=_Grouped, **given)

    def command(self, name: str | None = None, *, cls: type[TyperCommand] | None = None, **given: Any) -> Any:
        return super().command(name, cls=cls or _Command, **given)
