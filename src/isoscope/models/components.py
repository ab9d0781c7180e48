"""Map a transformer's parameters to components: word table, positions, queries, …, by stack, layer, head and part."""

import re
from typing import Any, NamedTuple

from torch import Tensor, nn

from isoscope.base.errors import InputError

_IN_LAYER = (
    (r"attention\.self\.(query|key|value)\.", ""),  # the component is the name itself
    (r"attention\.output\.dense\.", "out"),
    (r"intermediate\.dense\.", "W1"),
    (r"(?<!attention\.)output\.dense\.", "W2"),
)
_IN_EMBEDDINGS = (
    (r"(?:^|\.)embeddings\.fusion\.", "fusion"),
    (r"(?:^|\.)word_embeddings\.", "emb"),
    (r"(?:^|\.)position_embeddings\.", "pos"),
)
_LAYER = re.compile(r"(?:^|\.)layer\.(\d+)\.(.*)")
_NORM = re.compile(r"layer_?norm\.", re.IGNORECASE)
_BY_ROWS = ("query", "key", "value")


class Group(NamedTuple):
    """Parameters that are summed together.

    - `stack`: `enc`, `dec`, or `cross` (attention of a decoder to its encoder); `shared` for parameters of an
      encoder–decoder outside both stacks.
    - `layer`: from 0; None outside the layers.
    - `component`: `emb`, `pos`, `fusion`, `query`, `key`, `value`, `out`, `W1`, `W2`, `LayerNorm`, or `other`.
    - `head`: from 0; None where a component has no heads (the bias of `out` belongs to all heads).
    - `part`: `weight` or `bias`.
    """

    stack: str
    layer: int | None
    component: str
    head: int | None
    part: str


class Member(NamedTuple):
    """A parameter with its groups: equal blocks of its rows, or of its columns if `columns`, in the order of heads."""

    name: str
    parameter: nn.Parameter
    groups: tuple[Group, ...]
    columns: bool

    def arranged(self, values: Tensor) -> Tensor:
        """Return `values` of the parameter's shape with each group's values next to each other, as a vector."""
        return (values.t() if self.columns else values).reshape(-1)

    def view(self, flat: Tensor) -> Tensor:
        """Return the arranged vector `flat` in the parameter's shape."""
        shape = self.parameter.shape
        return flat.view(shape[::-1]).t() if self.columns else flat.view(shape)


def members(model: nn.Module, *, heads: bool = True) -> list[Member]:
    """Return every parameter of a model with its groups; a matrix that two modules share occurs once.

    BERT, RoBERTa, transformers' RobertaPreLayerNorm, and encoder–decoders of these layers (parameters named `encoder.…`
    and `decoder.…`) are known by their modules' names.

    - Head h: rows `h·d_k … (h+1)·d_k` of the query, key and value matrices and of their biases, the same columns of
      `out`'s matrix. A component includes its bias.
    - `heads` False: attention is not split by head.
    - A word table and an output matrix tied to it are `emb`. Fractional positions are `pos`.
    - `other`: token types, pooler, classifier, the language-model head's own parameters, and whatever has another name.
      Token types are not `emb`, which is the word table alone in the published tables.

    Raises `InputError` if the model has no layer with these names.
    """
    named = list(model.named_parameters())
    both = all(any(_stem(name).startswith(prefix) for name, _ in named) for prefix in ("encoder.", "decoder."))
    single = "dec" if getattr(getattr(model, "config", None), "is_decoder", False) else "enc"
    found = [_member(model, name, one, _stack(name) if both else single, heads) for name, one in named]
    if not any(group.component == "query" for member in found for group in member.groups):
        raise InputError(
            f"{type(model).__name__}: no parameter is named like BERT's layers (layer.0.attention.self.query.weight); "
            "allocation by component needs BERT's, RoBERTa's or RobertaPreLayerNorm's layers"
        )
    return found


def _stem(name: str) -> str:
    """Return a name without the prefix of the model inside a model with a head."""
    return name.removeprefix("model.")


def _stack(name: str) -> str:
    stem = _stem(name)
    return "enc" if stem.startswith("encoder.") else "dec" if stem.startswith("decoder.") else "shared"


def _member(model: nn.Module, name: str, parameter: nn.Parameter, stack: str, by_head: bool) -> Member:
    part = "bias" if name.endswith("bias") else "weight"
    inside = _LAYER.search(name)
    layer, rest = (int(inside[1]), inside[2]) if inside else (None, name)
    component = _component(rest, in_layer=layer is not None)
    stack = "cross" if rest.startswith("crossattention.") else stack
    heads = _heads(model, name) if by_head and component in (*_BY_ROWS, "out") else 0
    columns = component == "out"
    if (columns and part == "bias") or not _divides(heads, parameter, columns):
        heads = 0
    groups = tuple(Group(stack, layer, component, head, part) for head in range(heads))
    return Member(name, parameter, groups or (Group(stack, layer, component, None, part),), columns and bool(heads))


def _component(rest: str, *, in_layer: bool) -> str:
    """Return the component of a parameter, from its name below its layer, or from its whole name."""
    if _NORM.search(rest):
        return "LayerNorm"
    for pattern, component in _IN_LAYER if in_layer else _IN_EMBEDDINGS:
        if found := re.search(pattern, rest):
            return component or found[1]
    return "other"


def _heads(model: nn.Module, name: str) -> int:
    """Return the number of heads of the attention that a parameter belongs to; 0 if its module does not say."""
    block = re.split(r"\.(?:self|output)\.", name)[0]
    attention: Any = dict(model.get_submodule(block).named_children()).get("self")
    return int(getattr(attention, "num_attention_heads", 0))


def _divides(heads: int, parameter: nn.Parameter, columns: bool) -> bool:
    """Return whether heads are equal blocks; the small matrices of an adapter inside an attention are not."""
    size = parameter.shape[-1] if columns else parameter.shape[0] if parameter.ndim else 0
    return bool(heads) and size % heads == 0 and (not columns or parameter.ndim == 2)


def blocks(model: nn.Module) -> dict[str, dict[str, nn.Parameter]]:
    """Return block → name → parameter: `enc.0.W1`, `cross.1.value`, outside the layers `enc.pos`.

    Every parameter is in one block (`models.components.Group`). A word table that an encoder and a decoder share is
    `shared.emb`, as in the tables of the study `dynamics`. Raises `InputError` for an unknown architecture.
    """
    every = members(model, heads=False)
    both = {"enc", "dec"} <= {group.stack for one in every for group in one.groups}
    tables = {group.stack for one in every for group in one.groups if group.component == "emb"}
    found: dict[str, dict[str, nn.Parameter]] = {}
    for one in every:
        (group,) = one.groups
        stack = "shared" if both and tables == {"enc"} and group.component == "emb" else group.stack
        place = (stack, group.component) if group.layer is None else (stack, str(group.layer), group.component)
        found.setdefault(".".join(place), {})[one.name] = one.parameter
    return found
