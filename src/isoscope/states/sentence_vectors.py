"""Run a model as a sentence-transformers folder says, and keep a vector per sentence."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import torch

from isoscope.data import tokens
from isoscope.data.arrays import Vectors
from isoscope.data.batches import evaluation_batches
from isoscope.models.encoder import positions
from isoscope.models.sentence_head import SentenceHead
from isoscope.states.choices import SENTENCE
from isoscope.states.filled_arrays import FilledArrays
from isoscope.states.hidden_states import layers_of


@torch.no_grad()
def sentence_vectors(
    model: Any,
    head: SentenceHead,
    tokenizer: tokens.Tokenizer,
    sentences: Sequence[str],
    *,
    pad_id: int,
    batch_size: int,
    bf16: bool = False,
) -> Vectors:
    """Return the vectors `[1, n, D']` of sentences, fp32: of the last layer only.

    Texts are truncated as `head` says, not by the options of the command. Raises `InputError` for NaN or infinity.
    """
    most = min(head.longest or positions(model), positions(model))
    texts = [head.prompt + text for text in sentences]
    table = pa.table({"sentence": [text.lower() for text in texts] if head.lowercase else texts})
    encoded = tokens.encode(tokenizer, table, max_length=most)
    skipped = 0
    if head.prompt and not head.include_prompt:
        alone = tokenizer.backend.encode(head.prompt)
        skipped = len(alone.ids) - alone.special_tokens_mask[-1]
    model.eval()
    found = FilledArrays()
    for rows in evaluation_batches(encoded.lengths, batch_size=batch_size):
        layers, mask = layers_of(model, encoded, rows, pad_id, bf16)
        found.put(SENTENCE, len(sentences), rows, head(layers[-1], mask, skipped=skipped)[None])
        found.next_batch()
    return found.whole()[SENTENCE]
