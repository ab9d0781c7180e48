"""Parse the options of a command."""

from collections import Counter
from typing import Any

from typer.core import TyperCommand

from isoscope.base.errors import InputError


class Command(TyperCommand):
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
