"""Options of a command that the science declares, as parameters of a function or fields of a named tuple.

The annotation of each says all: `Annotated[type, bounds, values, "--flag", "meaning"]`. Only the meaning is required.
"""

import inspect
from collections.abc import Callable, Iterator
from typing import Annotated, Any, get_args, get_origin

import typer

from isoscope.base.errors import InputError


def declared(*by: Callable[..., Any]) -> Iterator[inspect.Parameter]:
    """Yield the options that functions or named tuples declare, as parameters of a command, in their order."""
    for one in (one for each in by for one in inspect.signature(each, eval_str=True).parameters.values()):
        if get_origin(one.annotation) is Annotated:
            yield one.replace(kind=inspect.Parameter.KEYWORD_ONLY, **_typed(one.name, one.default, one.annotation))


def _typed(name: str, default: Any, annotation: Any) -> dict[str, Any]:
    """Return default and annotation of an option; a tuple may be repeated, and is empty unless it is given."""
    kind, *notes = get_args(annotation)
    *flags, about = (note for note in notes if isinstance(note, str))
    values = next((note for note in notes if isinstance(note, tuple)), ())
    bounds = (("min", "ge"), ("max", "le"))
    limits = {to: getattr(note, of) for note in notes for to, of in bounds if hasattr(note, of)}
    flag = flags[0] if flags else "--" + name.replace("_", "-")
    several = get_origin(kind) is tuple
    about += (f": {', '.join(values)}" if values else "") + "; may be repeated" * several

    def known(given: Any) -> Any:
        names = filter(None, given) if several else [given]  # MLproject passes an empty text for an absent option
        if wrong := [one for one in names if values and one not in values]:
            raise InputError(f"{flag} {wrong[0]}: expected {', '.join(values)}")
        return given

    option = typer.Option(flag, help=f"{about}.", callback=known, **limits)
    plain: Any = list[str] if several else str if values else kind
    return {"default": [] if several else default, "annotation": Annotated[plain, option]}
