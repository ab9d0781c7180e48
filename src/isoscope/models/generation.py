"""Language models: the hooks of `generate`, and logits at chosen tokens only."""

from functools import wraps
from typing import Any, TypeVar

import torch
from torch import Tensor
from transformers.generation.configuration_utils import GenerationConfig, GenerationMode
from transformers.generation.utils import GenerationMixin
from transformers.modeling_outputs import CausalLMOutputWithCrossAttentions

from isoscope.base.errors import InputError

Kind = TypeVar("Kind", bound=type)


class FusedGenerationMixin(GenerationMixin):
    """The `generate` hooks of a model that writes: no cache where its fusion reads neighbouring tokens.

    Elsewhere there is one if asked for (`use_cache=True`).
    """

    get_input_embeddings: Any

    @property
    def caches(self) -> bool:
        """Whether keys and values of earlier tokens may be kept: each token's embedding depends on the token alone."""
        writes: Any = getattr(self, "decoder", self)
        return bool(writes.base_model.caches)

    def _prepare_cache_for_generation(
        self,
        generation_config: GenerationConfig,
        model_kwargs: dict[str, Any],
        generation_mode: GenerationMode,
        *sizes: int,
    ) -> bool:
        """Turn the cache off where a fusion reads neighbours; raise `InputError` for modes that need a cache."""
        if self.caches and generation_config.use_cache:
            library: Any = super()
            return library._prepare_cache_for_generation(generation_config, model_kwargs, generation_mode, *sizes)
        if generation_config.cache_implementation is not None:
            raise InputError("cache_implementation: a fusion reads the whole text and keeps no cache; remove it")
        if generation_mode == GenerationMode.ASSISTED_GENERATION:
            raise InputError("assisted generation: a fusion reads the whole text and keeps no cache; change the mode")
        generation_config.use_cache = False  # on a copy that `generate` makes for each call
        return False

    def _prepare_position_ids_for_generation(self, inputs_tensor: Tensor, model_kwargs: dict[str, Any]) -> Tensor:
        """Return the positions used in training; `generate` counts from 0, which a RoBERTa has never learned."""
        library: Any = super()
        counted: Tensor = library._prepare_position_ids_for_generation(inputs_tensor, model_kwargs)
        writes: Any = getattr(self, "decoder", self)
        padding = writes.base_model.embeddings.position_embeddings.padding_idx
        return counted if padding is None else counted + padding + 1

    def prepare_inputs_for_generation(  # type: ignore[override]  # `generate` passes names; the others are among the rest
        self,
        input_ids: Tensor,
        *,
        past_key_values: Any = None,
        inputs_embeds: Tensor | None = None,
        is_first_iteration: bool | None = False,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Return the whole text; after a prompt of embeddings, append the embeddings of the generated tokens."""
        if past_key_values is None and inputs_embeds is not None and not is_first_iteration:
            generated = kwargs["position_ids"].shape[-1] - inputs_embeds.shape[1]
            new = self.get_input_embeddings()(input_ids[:, input_ids.shape[1] - generated :])
            inputs_embeds, is_first_iteration = torch.cat([inputs_embeds, new], 1), True
        given = {"past_key_values": past_key_values, "inputs_embeds": inputs_embeds, **kwargs}
        library: Any = super()
        return library.prepare_inputs_for_generation(input_ids, is_first_iteration=is_first_iteration, **given)


def at_chosen_tokens(kind: Kind) -> Kind:
    """Add the argument `predicted` `[P]` to the `forward` of a language model's class, and return the class.

    `predicted` has indices into the batch's tokens, `[B · L]` in row order; the logits are then `[P, V]`, those of
    these tokens: with a large vocabulary logits are the costly part. Without it nothing changes. A decorator, because
    transformers reads the arguments that `forward` names.
    """
    whole = kind.forward  # type: ignore[attr-defined]

    @wraps(whole)
    def forward(self: Any, *args: Any, predicted: Tensor | None = None, **kwargs: Any) -> Any:
        if predicted is None:
            return whole(self, *args, **kwargs)
        kwargs.pop("return_dict", None)
        head = getattr(self, "cls", None) or getattr(self, "lm_head", None)
        if head is None:  # made of several parts
            found = whole(self, *args, **kwargs)
            found.logits = found.logits.flatten(0, 1)[predicted]
            return found
        found = self.base_model(*args, **kwargs)
        return CausalLMOutputWithCrossAttentions(
            logits=head(found.last_hidden_state.flatten(0, 1)[predicted]),
            hidden_states=found.hidden_states,
            attentions=found.attentions,
            cross_attentions=found.cross_attentions,
        )

    kind.forward = forward  # type: ignore[attr-defined]
    return kind
