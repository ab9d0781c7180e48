"""Run a model over words in sentences: the states of each word at every layer."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from isoscope.data.arrays import Vectors
from isoscope.data.batches import evaluation_batches
from isoscope.data.treebank import Treebank
from isoscope.data.word_table import Located
from isoscope.states.choices import WORD_TABLE, Pooling
from isoscope.states.hidden_states import embedding_parts, layers_of, word_means

FINAL_NORMS = ("LayerNorm", "layer_norm", "final_layer_norm", "final_layernorm", "final_norm", "ln_f", "norm")


class WordStates(NamedTuple):
    """States of words `[layers, W, D]`, fp32, and the numbers of the layers: 0 (after the embedding block) … L.

    If `whole`, `WORD_TABLE` comes before them; and in a model with a LayerNorm after its last layer (pre-norm), L is
    the last layer's output and L + 1 is the output of that LayerNorm, which is L otherwise.
    """

    values: Vectors
    layers: list[int]


@torch.no_grad()
def word_states(
    model: nn.Module,
    words: Treebank | Located,
    *,
    pooling: Pooling = "mean",
    whole: bool = False,
    pad_id: int,
    batch_size: int,
    bf16: bool = False,
) -> WordStates:
    """Return the states of words; a word's vector is the mean over its tokens, or its first or last token.

    `model` is the bare encoder or decoder. Raises `InputError` for NaN or infinity.
    """
    model.eval()
    found = np.empty(0, np.float32)
    with embedding_parts(model) as parts, _final_norm(model) as normed:
        for rows in evaluation_batches(words.encoded.lengths, batch_size=batch_size):
            layers, _ = layers_of(model, words.encoded, rows, pad_id, bf16)
            first = 0
            # A model may have such a LayerNorm for something else, as DeBERTa for its relative positions.
            if whole and normed and normed[1].shape == layers[-1].shape and torch.equal(normed[1].float(), layers[-1]):
                layers = torch.cat([layers[:-1], *(one.float()[None] for one in normed)])
            if whole and "word" in parts and parts["word"].shape[-1] == layers.shape[-1]:
                layers, first = torch.cat([parts["word"].float()[None], layers]), WORD_TABLE
            chosen, means = word_means(layers, words, rows, pooling)
            if not found.size:
                found = np.empty((len(layers), len(words.sentence), layers.shape[-1]), np.float32)
            found[:, chosen] = means.cpu().numpy()
            parts.clear()
            normed.clear()
    return WordStates(found, [*range(first, first + len(found))])


@contextmanager
def _final_norm(model: nn.Module) -> Iterator[list[Tensor]]:
    """Capture input and output of the LayerNorm after the last layer; nothing in a model without one (post-norm)."""
    seen: list[Tensor] = []
    within = (model, getattr(model, "encoder", None), getattr(model, "decoder", None))
    norms = (getattr(one, name, None) for one in within for name in FINAL_NORMS)
    norm = next((one for one in norms if isinstance(one, nn.Module)), None)
    hook: Any = nullcontext()
    if norm is not None:
        hook = norm.register_forward_hook(lambda _, inputs, output: seen.extend((inputs[0].detach(), output.detach())))
    with hook:
        yield seen
