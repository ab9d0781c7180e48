"""Build section types that include plugin kinds, and validate trees."""

import ast
import contextlib
import inspect
import itertools
import textwrap
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Union, cast, get_args

from pydantic import BaseModel, Field, ValidationError, create_model
from pydantic.json_schema import GenerateJsonSchema

from isoscope import plugins
from isoscope.base.errors import InputError
from isoscope.platform.config.base import Name, Section
from isoscope.platform.config.data import Data, Embedded, Hub, Local
from isoscope.platform.config.explain import Faults, explain
from isoscope.platform.config.fusion import BUILT_IN
from isoscope.platform.config.model import Model
from isoscope.platform.config.objective import OBJECTIVES
from isoscope.platform.config.penalty import PENALTIES
from isoscope.platform.config.project import Cell, Root, Study
from isoscope.platform.config.tree import Tree


def validate(kind: type[BaseModel], tree: Tree, origin: Any) -> Any:
    """Return `tree` as `kind`. Raises `InputError` that explains every fault."""
    try:
        return kind.model_validate(tree)
    except ValidationError as error:
        raise InputError(*explain(kind, tree, error, origin)) from None


def valid_root(tree: Tree, origin: Any, faults: Faults) -> Root:
    """Return the sections of the project. Collects faults in `faults` and leaves the faulty sections out."""
    try:
        return cast(Root, validate(Root, tree, origin))
    except InputError as error:
        faults.keep(*error.lines)
    sound: dict[str, Any] = {"plugins": (), "tasks": (), "comparisons": {}, "search": None}
    for name, field in Root.model_fields.items():
        alone = extended(Section, **{name: (field.annotation, field)})
        with contextlib.suppress(InputError):
            sound[name] = getattr(validate(alone, {name: tree.get(name)}, origin), name)
    if "studies" not in sound:
        sound |= {"studies": _sound_studies(tree.get("studies"), origin), "comparisons": {}, "search": None}
    return Root.model_construct(**sound)


def _sound_studies(tree: Any, origin: Any) -> dict[str, Study]:
    found = {}
    for name, study in tree.items() if isinstance(tree, dict) else ():
        with contextlib.suppress(InputError):
            found[name] = validate(Study, study, origin)
    return found


def _union(builtin: tuple[type[BaseModel], ...], registry: Mapping[str, plugins.Plugin]) -> Any:
    taken = {get_args(kind.model_fields["kind"].annotation)[0] for kind in builtin}
    if clash := taken & registry.keys():
        name = min(clash)
        raise InputError(f"plugin {registry[name].file}: {name!r} is a built-in kind; give it another name")
    kinds = (*builtin, *(plugin.options for plugin in registry.values()))
    return Annotated[Union[kinds], Field(discriminator="kind")]  # noqa: UP007 - the members are known at run time only


def extended(base: type[BaseModel], **fields: Any) -> Any:
    """Return `base` with added or replaced fields."""
    return create_model(base.__name__, __base__=base, **fields)


def data_type() -> type[Data]:
    """Return the type of section `data`, including the data sets of plugins."""
    return extended(Data, source=(_union((Embedded, Local, Hub), plugins.DATASETS), ...))


def cell_type() -> type[Cell]:
    """Return the type of a cell, including fusions, objectives, penalties, observers and data sets of plugins."""
    model = extended(Model, fusion=(_union((*BUILT_IN.values(),), plugins.FUSIONS), ...))
    fields: dict[str, Any] = {
        "data": (data_type(), ...),
        "model": (model, ...),
        "objective": (_union(OBJECTIVES, plugins.OBJECTIVES), ...),
        "penalty": (_union(PENALTIES, plugins.PENALTIES), ...),
    }
    if plugins.OBSERVERS:
        fields["observers"] = (dict[Name, _union((), plugins.OBSERVERS)], ...)  # type: ignore[misc]
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
    """Yield the fields of a class with a docstring, and that.

    Not by pydantic, which reads the sources whenever a class is made: .04 to .2 s of each command.
    """
    (found,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    for field, below in itertools.pairwise(found.body):  # type: ignore[attr-defined]
        match field, below:
            case ast.AnnAssign(target=ast.Name(name)), ast.Expr(ast.Constant(str(text))):
                yield name, inspect.cleandoc(text)


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of params.yaml and every overlay, for completion in editors.

    It requires no key, because an overlay may complete params.yaml; the loader checks the merged tree.
    """

    class Params(Root, Cell):
        pass

    schema = Params.model_json_schema(schema_generator=_Partial)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "isoscope parameters"}
