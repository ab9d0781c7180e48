"""code.yaml: digests of isoscope's installed code by stage, in a project that `isoscope new` made.

The project has no sources for DVC to watch. Its stages depend on the digests in this file instead.
"""

from collections.abc import Iterable
from pathlib import Path

from isoscope import __version__
from isoscope.base.atomic_files import write_text
from isoscope.base.built_in import STAGES
from isoscope.base.code_closure import stage_version
from isoscope.base.errors import InputError
from isoscope.base.paths import CODE
from isoscope.platform.config.tree import Tree, dump_yaml, read_yaml

VERSION = "isoscope"
"""Entry with isoscope's version, for people; no stage depends on it."""
_HEAD = """\
# Digests of isoscope's installed code, by stage. After an upgrade, `isoscope repro` renews them, and DVC runs the
# stages whose code has changed.
"""


def code_file(stages: Iterable[str]) -> str:
    """Return the text of code.yaml for the installed code."""
    return _HEAD + dump_yaml({VERSION: __version__} | {stage: stage_version(stage) for stage in stages})


def outdated(folder: Path, only: str | None = None) -> tuple[str, ...]:
    """Return the stages of a project's code.yaml, or `only` one, whose code differs from the installed code.

    Empty without such a file: in a checkout DVC watches the sources. Raises `InputError` for an invalid file.
    """
    if not (folder / CODE).exists():
        return ()
    asked = [(stage, digest) for stage, digest in _digests(folder).items() if only in (None, stage)]
    return tuple(stage for stage, digest in asked if digest != stage_version(stage))


def renew(folder: Path) -> tuple[str, ...]:
    """Write the digests of the installed code into a project's code.yaml; return the stages whose code has changed."""
    changed = outdated(folder)
    if changed:
        write_text(folder / CODE, code_file(_digests(folder)), "params")
    return changed


def check_code(folder: Path, only: str | None = None) -> None:
    """Raise `InputError` if code.yaml does not have the digests of the installed code."""
    if changed := outdated(folder, only):
        raise InputError(
            f"{CODE}: not of the installed isoscope {__version__}: {', '.join(changed)}; start DVC with: isoscope repro"
        )


def _digests(folder: Path) -> Tree:
    found = {stage: digest for stage, digest in read_yaml(folder, CODE).items() if stage != VERSION}
    for stage in found:
        if stage not in STAGES:
            raise InputError(
                f"{CODE}: {stage}: not a stage of isoscope {__version__}; replace {CODE} and dvc.yaml by those of a "
                "project of: isoscope new"
            )
    return found
