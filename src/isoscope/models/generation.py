"""Generate text with a model that keeps no cache: each step reads the whole text again."""

from typing import Any

import torch
from torch import Tensor
from transformers.generation.configuration_utils import GenerationConfig, GenerationMode
from transformers.generation.utils import GenerationMixin

from isoscope.errors import InputError


class UncachedGenerationMixin(GenerationMixin):
    """The `generate` hooks of a causal model whose fusion reads the whole text."""

    get_input_embeddings: Any

    def _prepare_cache_for_generation(
        self,
        generation_config: GenerationConfig,
        model_kwargs: dict[str, Any],
        generation_mode: GenerationMode,
        batch_size: int,
        max_cache_length: int,
    ) -> bool:
        """Turn the cache off, even if the library asks for it; raise `InputError` for modes that need a cache."""
        if generation_config.cache_implementation is not None:
            raise InputError("cache_implementation: a fusion reads the whole text and keeps no cache; remove it")
        if generation_mode == GenerationMode.ASSISTED_GENERATION:
            raise InputError("assisted generation: a fusion reads the whole text and keeps no cache; change the mode")
        generation_config.use_cache = False  # on a copy that `generate` makes for each call
        return False

    def prepare_inputs_for_generation(
        self,
        input_ids: Tensor,
        next_sequence_length: int | None = None,
        past_key_values: Any = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        is_first_iteration: bool | None = False,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Return the whole text; after a prompt of embeddings, append the embeddings of the generated tokens."""
        if inputs_embeds is not None and not is_first_iteration:
            generated = kwargs["position_ids"].shape[-1] - inputs_embeds.shape[1]
            new = self.get_input_embeddings()(input_ids[:, input_ids.shape[1] - generated :])
            inputs_embeds, is_first_iteration = torch.cat([inputs_embeds, new], 1), True
        library: Any = super()
        prepared: dict[str, Any] = library.prepare_inputs_for_generation(
            input_ids,
            next_sequence_length=next_sequence_length,
            past_key_values=past_key_values,
            attention_mask=attention_mask,
            inputs_embeds=inputs_embeds,
            is_first_iteration=is_first_iteration,
            **kwargs,
        )
        return prepared
