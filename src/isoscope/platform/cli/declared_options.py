"""Options of a command that the science declares, as parameters of a function or fields of a named tuple.

The annotation of each says all: `Annotated[type, bounds, values, "--flag", "meaning"]`. Only the meaning is required.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, NamedTuple, get_args, get_origin

import typer

from isoscope.base.errors import InputError


class Option(NamedTuple):
    """An option: its parameter, type, flag and meaning, the values that it may have (none: any), and its bounds."""

    parameter: inspect.Parameter
    kind: Any
    flag: str
    about: str
    values: tuple[str, ...]
    bounds: dict[str, Any]

    @property
    def several(self) -> bool:
        """Whether it may be repeated."""
        return get_origin(self.kind) is tuple

    def of_command(self) -> inspect.Parameter:
        """Return the parameter of a command of typer."""
        about = self.about + (f": {', '.join(self.values)}" if self.values else "") + "; may be repeated" * self.several
        kind = list[str] if self.several else str if self.values else self.kind
        return self.parameter.replace(
            kind=inspect.Parameter.KEYWORD_ONLY,
            default=[] if self.several else self.parameter.default,
            annotation=Annotated[kind, typer.Option(self.flag, help=f"{about}.", **self.bounds)],
        )

    def checked(self, given: Any) -> Any:
        """Return a value that was given; raise `InputError` if it may not be. Equal and empty values are one."""
        values = tuple(dict.fromkeys(filter(None, given))) if self.several else (given,)
        if wrong := [one for one in values if self.values and one not in self.values]:
            raise InputError(f"{self.flag} {wrong[0]}: expected {', '.join(self.values)}")
        return values if self.several else given


def declared(by: Callable[..., Any]) -> Iterator[Option]:
    """Yield the options that a function or named tuple declares, in their order."""
    for one in inspect.signature(by, eval_str=True).parameters.values():
        if get_origin(one.annotation) is not Annotated:
            continue
        kind, *notes = get_args(one.annotation)
        *flags, about = (note for note in notes if isinstance(note, str))
        values = next((note for note in notes if isinstance(note, tuple)), ())
        bounds = {
            name: getattr(note, bound)
            for note in notes
            for name, bound in (("min", "ge"), ("max", "le"))
            if getattr(note, bound, None) is not None
        }
        flag = flags[0] if flags else "--" + one.name.replace("_", "-")
        yield Option(one, kind, flag, about, values, bounds)


def checked(options: list[Option], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was given for these options."""
    return {one.parameter.name: one.checked(given[one.parameter.name]) for one in options}
