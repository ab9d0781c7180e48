"""Language-model heads that compute logits at chosen tokens only: a large vocabulary makes logits the costly part."""

from functools import wraps
from typing import Any, TypeVar

from torch import Tensor
from transformers.modeling_outputs import CausalLMOutputWithCrossAttentions

Kind = TypeVar("Kind", bound=type)


def at_chosen_tokens(kind: Kind) -> Kind:
    """Add the argument `predicted` `[P]` to the `forward` of a language model's class, and return the class.

    `predicted` has indices into the batch's tokens, `[B · L]` in row order; the logits are then `[P, V]`, those of
    these tokens. Without it nothing changes. A decorator, because transformers reads the arguments that `forward`
    names.
    """
    whole = kind.forward  # type: ignore[attr-defined]

    @wraps(whole)
    def forward(self: Any, *args: Any, predicted: Tensor | None = None, **kwargs: Any) -> Any:
        if predicted is None:
            return whole(self, *args, **kwargs)
        kwargs.pop("return_dict", None)
        found = self.base_model(*args, **kwargs)
        head = self.cls if hasattr(self, "cls") else self.lm_head
        return CausalLMOutputWithCrossAttentions(
            logits=head(found.last_hidden_state.flatten(0, 1)[predicted]),
            hidden_states=found.hidden_states,
            attentions=found.attentions,
            cross_attentions=found.cross_attentions,
        )

    kind.forward = forward  # type: ignore[attr-defined]
    return kind
