"""Generation of text by a model that keeps no cache: each step reads the whole text anew."""

from typing import Any

import torch
from torch import Tensor
from transformers.generation.configuration_utils import GenerationConfig, GenerationMode
from transformers.generation.utils import GenerationMixin

from isoscope.errors import InputError


class UncachedGenerationMixin(GenerationMixin):
    """What `generate` must know of a causal model whose fusion reads the whole text."""

    get_input_embeddings: Any

    def _prepare_cache_for_generation(
        self,
        generation_config: GenerationConfig,
        model_kwargs: dict[str, Any],
        generation_mode: GenerationMode,
        batch_size: int,
        max_cache_length: int,
    ) -> bool:
        """No cache, even where the library asks for one (for a prompt of embeddings); raises `InputError` for kinds."""
        if generation_config.cache_implementation is not None:
            raise InputError("cache_implementation: a fusion reads the whole text and keeps no cache; leave it out")
        if generation_mode == GenerationMode.ASSISTED_GENERATION:
            raise InputError("assisted generation: a fusion reads the whole text and keeps no cache; take another mode")
        generation_config.use_cache = False  # of a copy that `generate` makes for each call
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
        """The whole text; a prompt of embeddings is followed by the embeddings of what was generated since."""
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
