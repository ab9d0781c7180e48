"""The command line: a command for each stage of the pipeline, and tools."""

import contextlib
import errno
import os
import sys
from typing import Annotated

import typer

from isoscope.base.errors import InputError, RunError, card_trouble, disk_trouble, plugins_named
from isoscope.base.processes import StoppedError, rank, run_own_tree, world_size

from isoscope.platform.cli import (  # isort: skip - in the order of the help
    begin,
    stages,
    explain,
    prove,
    look,
    give_away,
    keep_house,
)
from isoscope.platform.cli import search_commands as search
from isoscope.platform.cli.options import app
from isoscope.platform.cli.streams import complain, flushed, open_closed

__all__ = ["app", "begin", "explain", "give_away", "keep_house", "look", "main", "prove", "search", "stages"]


def main() -> None:
    """Run the command line. Exit codes: 0 success, 1 failure, 2 wrong input, 128 + n stopped by signal n."""
    open_closed()
    # MLflow would log all our runs into an inherited active run; it becomes their parent instead.
    if run := os.environ.pop("MLFLOW_RUN_ID", None):
        os.environ.setdefault("ISOSCOPE_PARENT_RUN", run)
    try:
        run_own_tree()
        with plugins_named(), flushed():
            sys.exit(app(standalone_mode=False, prog_name="isoscope"))
    except typer.TyperException as error:  # wrong options
        context = getattr(error, "ctx", None)
        help_on = f" (see: {context.command_path} --help)" if context else ""
        _fail(error.format_message() + help_on, error.exit_code)
    except (InputError, RunError, StoppedError) as error:
        _fail(str(error), error.exit_code)
    except (typer.Abort, KeyboardInterrupt):
        _fail("interrupted", 130)
    except BrokenPipeError:
        _fail("the reader of its output has ended", 141)
    except Exception as error:
        if line := disk_trouble(error) or card_trouble(error):
            _fail(line, 2 if getattr(error, "errno", None) == errno.ENAMETOOLONG else 1)
        raise


def _fail(line: str, code: int) -> None:
    with contextlib.suppress(InputError):
        if rank() > 0:  # only rank 0 prints
            sys.exit(code)
    complain(line)
    sys.exit(code)


@app.callback(invoke_without_command=True)
def top(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Tracked experiments on the geometry of transformer representations."""
    if version:
        from isoscope import __version__

        print(__version__)
        raise typer.Exit
    if world_size() > 1 and context.invoked_subcommand != "train":
        raise InputError(
            "only isoscope train runs on several processes; start this command without torchrun or accelerate"
        )
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit(2)
