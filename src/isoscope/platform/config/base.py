"""Base class and common types of the configuration sections."""

from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from isoscope.base.metric import Direction as Direction
from isoscope.base.paths import LONGEST

Conflicts = Iterable[tuple[bool, str]]
"""Conflicts between options: whether each occurs, and its message."""


class Section(BaseModel):
    """A strict, frozen node of the configuration. It refuses unknown keys and has no hidden defaults."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    def _conflicts(self) -> Conflicts:
        """Return the conflicts between options that are each valid alone; the first that occurs is the error."""
        return ()

    @model_validator(mode="after")
    def _agree(self) -> Self:
        for occurs, message in self._conflicts():
            if occurs:
                raise ValueError(message)
        return self


Probability = Annotated[float, Field(ge=0, lt=1)]
Share = Annotated[float, Field(ge=1e-6, le=1)]
"""A share above 0, up to 1."""
Fraction = Annotated[float, Field(ge=1e-6, le=1 - 1e-6)]
"""A share above 0 and below 1."""
Level = Annotated[float, Field(ge=0.5, le=0.9999)]
"""Coverage of an interval, or power of a test."""
Count = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0, lt=2**31)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.]*$", max_length=LONGEST)]
Key = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_]*$", max_length=LONGEST)]
"""A name below which DVC finds parameters: it takes a dot for the next level."""


def _below(path: str) -> str:
    if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts or "\\" in path or "\0" in path:
        raise ValueError(f"{path!r} is outside the project; give a path below it, without '..'")
    return path


Below = Annotated[str, Field(min_length=1), AfterValidator(_below)]


def _plain_name(name: str) -> str:
    if name in ("", ".", "..") or any(sign in name for sign in "/\\\0"):
        raise ValueError(f"{name!r} is not a plain name; remove the folders")
    return name


PlainName = Annotated[str, AfterValidator(_plain_name)]
