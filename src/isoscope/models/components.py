"""Map a transformer's parameters to components: word table, positions, queries, …, by stack, layer, head and part."""

import re
from typing import NamedTuple

from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from isoscope.base.errors import InputError
from isoscope.models.encoder import writes

_START = r"(?:^|\.)"
_IN_LAYER = (
    ("LayerNorm", r"norm\.|" + _START + r"ln_\d\."),
    ("query", _START + r"(?:query(?:_proj)?|q(?:_lin|_proj)?)\."),
    ("key", _START + r"(?:key(?:_proj)?|k(?:_lin|_proj)?)\."),
    ("value", _START + r"(?:value(?:_proj)?|v(?:_lin|_proj)?)\."),
    ("query+key+value", _START + r"(?:Wqkv|c_attn)\."),
    ("out", r"attention\.(?:output\.)?dense\.|attn\.(?:c_proj|Wo)\.|" + _START + r"(?:out_lin|out_proj|o_proj|o)\."),
    (
        "W1",
        r"intermediate\.dense\.|ffn\.(?:weight|bias)|"
        + _START
        + r"(?:lin1|fc1|c_fc|[wW]i(?:_[01])?|gate_proj|up_proj)\.",
    ),
    (
        "W2",
        r"(?<!attention\.)output\.dense\.|mlp\.(?:c_proj|Wo)\.|" + _START + r"(?:lin2|fc2|wo|down_proj|ffn_output)\.",
    ),
)
_OUTSIDE = (
    ("LayerNorm", r"norm\.|" + _START + r"ln_f\."),
    ("fusion", _START + r"embeddings\.fusion\."),
    ("emb", _START + r"(?:word_embeddings|wte|embed_tokens|tok_embeddings|shared)\."),
    ("pos", _START + r"(?:position_embeddings|wpe)\."),
)
"""Component → names of its parameters, in the families of transformers: below a layer, and outside of the layers."""
_LAYER = re.compile(_START + r"(?:layers?|h|block|albert_layers)\.(\d+)\.(.*)")
_HEADS = ("num_attention_heads", "num_heads", "n_heads", "n_head")
_CROSS = ("crossattention.", "EncDecAttention.")


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

    Parameters are known by their names in transformers' families of encoders, decoders and encoder-decoders.

    - Head h: rows `h·d_k … (h+1)·d_k` of the query, key and value matrices and of their biases, the same columns of
      `out`'s matrix. A component includes its bias. Where one matrix holds queries, keys and values, it is split.
      Of matrices stored as input × output (GPT-2), rows and columns change places.
    - `heads` False: attention is not split by head.
    - A word table and an output matrix tied to it are `emb`. Fractional positions are `pos`.
    - `other`: token types, pooler, classifier, the language-model head's own parameters, and whatever has another name.
      Token types are not `emb`, which is the word table alone in the published tables.

    Raises `InputError` if the model has no layer with these names.
    """
    named = list(model.named_parameters())
    both = all(any(_stem(model, name).startswith(prefix) for name, _ in named) for prefix in ("encoder.", "decoder."))
    single = "dec" if writes(getattr(model, "config", None)) else "enc"
    found = [_member(model, name, one, _stack(model, name) if both else single, heads) for name, one in named]
    if not any(group.component == "query" for member in found for group in member.groups):
        raise InputError(
            f"{type(model).__name__}: no parameter is named like a query matrix in a layer, such as "
            "layer.0.attention.self.query.weight; allocation by component needs such layers"
        )
    return found


def place_of(name: str) -> tuple[int | None, str]:
    """Return layer and component of a parameter by its name, see `Group`; a matrix may be of several: `query+key`."""
    inside = _LAYER.search(name)
    layer, rest = (int(inside[1]), inside[2]) if inside else (None, name)
    patterns = _OUTSIDE if layer is None else _IN_LAYER
    return layer, next((one for one, pattern in patterns if re.search(pattern, rest, re.IGNORECASE)), "other")


def _stem(model: nn.Module, name: str) -> str:
    """Return a name without the prefix of the model inside a model with a head."""
    return name.removeprefix("model.").removeprefix(f"{getattr(model, 'base_model_prefix', '')}.")


def _stack(model: nn.Module, name: str) -> str:
    stem = _stem(model, name)
    return "enc" if stem.startswith("encoder.") else "dec" if stem.startswith("decoder.") else "shared"


def _member(model: nn.Module, name: str, parameter: nn.Parameter, stack: str, by_head: bool) -> Member:
    part = "bias" if name.endswith("bias") else "weight"
    layer, component = place_of(name)
    stack = "cross" if any(one in name for one in _CROSS) else stack
    parts, flat = component.split("+"), parameter.ndim == 1
    columns = not flat and (component == "out") != isinstance(model.get_submodule(name.rpartition(".")[0]), Conv1D)
    whole = (component == "out" and flat) or component not in ("out", "query", "key", "value", "query+key+value")
    heads = _heads(model, name, component) if by_head and not whole else 0
    if not _divides(heads * len(parts), parameter, columns):
        heads = 0
    groups = [Group(stack, layer, one, head, part) for one in parts for head in (range(heads) if heads else [None])]
    return Member(name, parameter, tuple(groups), columns and len(groups) > 1)


def _heads(model: nn.Module, name: str, component: str) -> int:
    """Return the number of heads of the attention that a parameter belongs to, as its modules or its model say."""
    asked = ("num_key_value_heads", *_HEADS) if component in ("key", "value") else _HEADS
    places = [name.rsplit(".", above)[0] for above in range(1, name.count(".") + 1)]
    modules = (
        part for place in places for block in [model.get_submodule(place)] for part in (block, *block.children())
    )
    known = (getattr(one, key, None) for one in (*modules, getattr(model, "config", None)) for key in asked)
    return next((int(one) for one in known if isinstance(one, int)), 0)


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
        group, component = one.groups[0], "+".join(part.component for part in one.groups)
        stack = "shared" if both and tables == {"enc"} and component == "emb" else group.stack
        place = (stack, component) if group.layer is None else (stack, str(group.layer), component)
        found.setdefault(".".join(place), {})[one.name] = one.parameter
    return found
