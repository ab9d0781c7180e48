"""Options that all fusions of chosen tables have, and the rules between them."""

from typing import Annotated, Any, Literal

from annotated_types import Ge, Len

from isoscope.base.entry import refuse

Table = Literal["word", "position", "token_type"]
Tables = Annotated[tuple[Table, ...], Len(2), "Embedding tables to fuse."]
TokenType = Annotated[
    Literal["add", "ignore"], "Add or ignore the token-type embedding after the fusion, if it is not in `sources`."
]
Normalisation = Annotated[Literal["none", "l2"], "l2: scale each source vector to unit length before the fusion."]
Activation = Literal["gelu", "none"]
Count = Annotated[int, Ge(1)]


def check_tables(o: Any) -> None:
    """Raise `ValueError` if the options `sources` and `token_type` do not agree."""
    distinct = set(o.sources)
    refuse(
        (len(distinct) < len(o.sources), f"sources {list(o.sources)} names a table twice"),
        (not {"word", "position"} <= distinct, f"sources {list(o.sources)} must name word and position"),
        (
            "token_type" in distinct and o.token_type == "add",
            "token_type 'add' would count the token type twice: it is already in sources",
        ),
    )


def drops_token_type(o: Any) -> bool:
    """Whether the model has no token-type embedding."""
    return bool(o.token_type == "ignore" and "token_type" not in o.sources)
