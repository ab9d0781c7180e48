"""Build section types that include plugin kinds, and validate trees."""

import ast
import contextlib
import inspect
import itertools
import textwrap
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, Field, ValidationError, create_model, model_validator
from pydantic.json_schema import GenerateJsonSchema

from isoscope.base.entry import Entry
from isoscope.base.errors import InputError
from isoscope.base.registry import DATASETS, FUSIONS, OBJECTIVES, OBSERVERS, PENALTIES
from isoscope.platform.config import loss
from isoscope.platform.config.base import Name, Section
from isoscope.platform.config.comparing import Comparison, section
from isoscope.platform.config.data import Data, Embedded, Hub, Local
from isoscope.platform.config.declared import with_target
from isoscope.platform.config.explain import Faults, explain
from isoscope.platform.config.model import Model
from isoscope.platform.config.project import Cell, Root, Study
from isoscope.platform.config.tree import Tree


def validate(kind: type[BaseModel], tree: Tree, origin: Any) -> Any:
    """Return `tree` as `kind`. Raises `InputError` that explains every fault."""
    try:
        return kind.model_validate(tree)
    except ValidationError as error:
        raise InputError(*explain(kind, tree, error, origin)) from None


@cache
def _alone(name: str) -> Any:
    """Return the type of a mapping with one of the project's sections."""
    field = Root.model_fields[name]
    return extended(Section, **{name: (field.annotation, field)})


def valid_root(tree: Tree, origin: Any, faults: Faults) -> Root:
    """Return the sections of the project. Collects faults in `faults` and leaves the faulty sections out."""
    sound: dict[str, Any] = {"plugins": (), "tasks": (), "comparisons": {}, "search": None}
    for name in Root.model_fields:
        with faults.each():
            given = {name: tree[name]} if name in tree else {}
            sound[name] = getattr(validate(_alone(name), given, origin), name)
    if "studies" not in sound:
        sound |= {"studies": _sound_studies(tree.get("studies"), origin), "comparisons": {}, "search": None}
    return Root.model_construct(**sound)


def valid_comparisons(given: Tree, origin: Any) -> dict[str, Comparison]:
    """Return the section `comparisons`, whose kinds are known when plugins are loaded. Raises as `validate`."""
    if not given:
        return {}
    found = validate(extended(Section, comparisons=(section(), ...)), {"comparisons": given}, origin)
    return dict(found.comparisons)


def _sound_studies(tree: Any, origin: Any) -> dict[str, Study]:
    found = {}
    for name, study in tree.items() if isinstance(tree, dict) else ():
        with contextlib.suppress(InputError):
            found[name] = validate(Study, study, origin)
    return found


@cache
def options_of(entry: Entry, base: type[Section] = Section) -> type[Section]:
    """Return the section that a factory's signature declares: its `kind`, then an option per parameter."""
    fields: dict[str, Any] = {"kind": (Literal[entry.name], ...)}
    told = entry.descriptions
    for name, one in entry.options.items():
        if one.annotation is one.empty or one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD):
            raise InputError(f"plugin {entry.name!r}: parameter {name!r} needs a type, as in 'scale: float'")
        if name in base.model_fields:
            raise InputError(f"plugin {entry.name!r}: {name!r} is a built-in option of every penalty; rename it")
        default = ... if one.default is one.empty else one.default
        strict = False if _plain(one.annotation) is tuple else None  # a list of YAML fits a tuple
        fields[name] = (one.annotation, Field(default, description=told.get(name), strict=strict))

    def agree(self: Section) -> Section:
        if entry.check is not None:
            entry.check(self)
        return self

    about = (inspect.getdoc(entry.factory) or "").partition("\n\n")[0]
    rules: Any = {"rules": model_validator(mode="after")(agree)}
    return create_model(entry.name.capitalize(), __base__=base, __doc__=about, __validators__=rules, **fields)


def _plain(annotation: Any) -> Any:
    """Return a type without its bounds and its items' types."""
    return _plain(get_args(annotation)[0]) if get_origin(annotation) is Annotated else get_origin(annotation)


def _union(builtin: tuple[type[BaseModel], ...], entries: Iterable[Entry], base: type[Section] = Section) -> Any:
    taken = {get_args(kind.model_fields["kind"].annotation)[0] for kind in builtin}
    kinds = [*builtin]
    for entry in entries:
        if entry.name in taken:
            raise InputError(f"plugin {entry.file}: {entry.name!r} is a built-in kind; give it another name")
        kinds.append(options_of(entry, base))
    return Annotated[Union[tuple(kinds)], Field(discriminator="kind")]  # noqa: UP007 - the members are known at run time only


def extended(base: type[BaseModel], **fields: Any) -> Any:
    """Return `base` with added or replaced fields."""
    return create_model(base.__name__, __base__=base, __doc__=base.__doc__, **fields)


def data_type() -> type[Data]:
    """Return the type of section `data`, including the data sets of plugins."""
    return extended(Data, source=(_union((Embedded, Local, Hub), DATASETS.own.values()), ...))


def cell_type() -> type[Cell]:
    """Return the type of a cell, including fusions, objectives, penalties, observers and data sets of plugins."""
    fields: dict[str, Any] = {
        "data": (data_type(), ...),
        "model": (extended(Model, fusion=(_union((), FUSIONS.values()), ...)), ...),
        "objective": (_union(loss.OBJECTIVES, (*with_target(), *OBJECTIVES.own.values())), ...),
        "penalty": (_union(loss.PENALTIES, PENALTIES.own.values(), loss.Weighted), ...),
    }
    if OBSERVERS.own:
        fields["observers"] = (dict[Name, _union((), OBSERVERS.own.values())], ...)  # type: ignore[misc]
    return extended(Cell, **fields)


class _Partial(GenerateJsonSchema):
    """A schema that requires no key and describes each by the docstring below its field."""

    def field_is_required(self, field: Any, total: bool) -> bool:
        return False

    def model_schema(self, schema: Any) -> dict[str, Any]:
        found = super().model_schema(schema)
        for kind in schema["cls"].__mro__:
            if issubclass(kind, Section):
                for name, text in _docstrings(kind):
                    found["properties"][name].setdefault("description", text)
        return found


def _docstrings(kind: type[Section]) -> Iterator[tuple[str, str]]:
    """Yield the fields of a class with a docstring, and that; none of a class that was made from a signature.

    Not by pydantic, which reads the sources whenever a class is made: .04 to .2 s of each command.
    """
    try:
        (found,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    except OSError:
        return
    for field, below in itertools.pairwise(found.body):  # type: ignore[attr-defined]
        match field, below:
            case ast.AnnAssign(target=ast.Name(name)), ast.Expr(ast.Constant(str(text))):
                yield name, inspect.cleandoc(text)


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of params.yaml and every overlay, for completion in editors.

    It requires no key, because an overlay may complete params.yaml; the loader checks the merged tree.
    """
    params = create_model("Params", __base__=(Root, cell_type()), comparisons=(section(), ...))
    schema = params.model_json_schema(schema_generator=_Partial)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "isoscope parameters"}
