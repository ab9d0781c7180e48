"""Run a model over a probe set once: pooled representations of every layer, and attention.

Works with any Hugging Face encoder or decoder. Sentences are batched by length and padding is masked. Results of a
batch are written to their rows at once, so memory does not grow with the number of snapshots, nor with the sentences
beyond the results.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from inspect import signature
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from isoscope.base.errors import InputError
from isoscope.data.arrays import Indices, Vectors
from isoscope.data.batches import collate, evaluation_batches
from isoscope.data.probe import ProbeSet, Words
from isoscope.data.tokens import Encoded
from isoscope.data.treebank import Treebank
from isoscope.data.word_table import Located
from isoscope.geometry.attention import AttentionSummary, summarise
from isoscope.states.choices import Pooling
from isoscope.states.filled_arrays import FilledArrays

Arrays = dict[str, Vectors]

TABLES = {
    "word": ("word_embeddings", "wte", "embed_tokens", "tok_embeddings"),
    "position": ("position_embeddings", "wpe", "embed_positions"),
}
NORMS = ("LayerNorm", "layer_norm", "norm")
MAPS = 4
"""Number of sentences whose whole attention maps are kept, to compare heads."""
LONGEST_MAP = 32
"""Maximum number of tokens of such a sentence."""


@torch.no_grad()
def hidden_states(model: nn.Module, probe: ProbeSet, *, pad_id: int, batch_size: int, bf16: bool = False) -> Arrays:
    """Return representations at layers 0 (after the embedding block) … L, fp32.

    - `first`, `last`, `mean` `[L + 1, n, D]`: the first token ([CLS] of an encoder), the last token ([SEP]; in a
      decoder it sees the whole text), and the mean over a sentence's tokens, special tokens included.
    - `words` `[L + 1, W, D]`: the mean over a word's tokens.
    - `shifted_first`, `shifted_last`, `shifted_mean`: the same for the sentences with two words swapped.
    - `bag` `[n, D]`: the mean of a sentence's rows of the word table.
    - `block_word`, `block_position`, `block_fused`, `block_normed`, `[T, D]`: every token of the sentences
      `probe.block`, if the model has such tables. `block_fused` is the input of the block's LayerNorm; for a block that
      adds both and has no LayerNorm, its output. `block_normed` is the output of the LayerNorm.
    - `block_layers` `[L, T, D]`: the same tokens at layers 1 … L, if the model has both tables.

    `model` is the bare encoder or decoder, without a head. Raises `InputError` for NaN or infinity.
    """
    encoded, words = probe.encoded, probe.words
    lengths = encoded.lengths
    ends = np.cumsum(lengths[probe.block])
    places = {int(one): slice(end - lengths[one], end) for one, end in zip(probe.block, ends, strict=True)}
    found = FilledArrays()
    model.eval()
    with embedding_parts(model) as parts:
        for rows in evaluation_batches(lengths, batch_size=batch_size):
            layers, mask = layers_of(model, encoded, rows, pad_id, bf16)
            for name, values in _pooled(layers, mask).items():
                found.put(name, len(lengths), rows, values)
            if "word" in parts:
                found.put(
                    "bag", len(lengths), rows, torch.einsum("btd,bt->bd", parts["word"].float(), _weight(mask, layers))
                )
            if len(words.text):
                found.put("words", len(words.text), *word_means(layers, words, rows))
            if both := {"word", "position"} <= parts.keys():
                parts.setdefault("fused", layers[0])
            for row, sentence in enumerate(map(int, rows)):
                if sentence in places:
                    size = int(lengths[sentence])
                    cells = {"block_layers": layers[1:, row, :size]} if both else {}
                    cells |= {f"block_{name}": one[row if len(one) > 1 else 0, :size] for name, one in parts.items()}
                    for name, values in cells.items():
                        found.put(name, ends[-1], places[sentence], values)
            parts.clear()
            found.next_batch()
    options: Any = {"pad_id": pad_id, "batch_size": batch_size, "bf16": bf16}
    return found.whole() | {
        f"shifted_{name}": one for name, one in pooled(model, probe.shifted.encoded, **options).items()
    }


@torch.no_grad()
def pooled(
    model: nn.Module,
    encoded: Encoded,
    kinds: Collection[str] = ("first", "last", "mean"),
    *,
    pad_id: int,
    batch_size: int,
    bf16: bool = False,
) -> Arrays:
    """Return `first`, `last` and `mean` as in `hidden_states`, `[L + 1, n, D]`, of any sentences."""
    found = FilledArrays()
    model.eval()
    for rows in evaluation_batches(encoded.lengths, batch_size=batch_size):
        for name, values in _pooled(*layers_of(model, encoded, rows, pad_id, bf16)).items():
            if name in kinds:
                found.put(name, len(encoded.lengths), rows, values)
        found.next_batch()
    return found.whole()


def layers_of(model: nn.Module, encoded: Encoded, rows: Any, pad_id: int, bf16: bool) -> tuple[Tensor, Tensor]:
    """Return all layers of a batch `[L + 1, B, T, D]`, fp32, and its mask.

    Raises `InputError` for layers of different shapes.
    """
    inputs = inputs_of(model, encoded, rows, pad_id)
    with torch.autocast(inputs["input_ids"].device.type, dtype=torch.bfloat16, enabled=bf16):
        output = model(**inputs, output_hidden_states=True, return_dict=True)
    if len(shapes := {tuple(layer.shape) for layer in output.hidden_states}) > 1:
        raise InputError(f"{type(model).__name__}: its layers differ in shape: {sorted(shapes)}; they are not compared")
    layers = torch.stack([layer.float() for layer in output.hidden_states])
    return layers, inputs["attention_mask"]


def _pooled(layers: Tensor, mask: Tensor) -> dict[str, Tensor]:
    """Return first token, last token and mean over tokens of a batch, `[L + 1, B, D]` each; padding is at the end."""
    every = torch.arange(len(mask), device=layers.device)
    return {
        "first": layers[:, :, 0],
        "last": layers[:, every, mask.sum(1) - 1],
        "mean": torch.einsum("lbtd,bt->lbd", layers, _weight(mask, layers)),
    }


def _weight(mask: Tensor, layers: Tensor) -> Tensor:
    return (mask / mask.sum(1, keepdim=True)).to(layers.dtype)


def word_means(
    layers: Tensor, words: Words | Treebank | Located, rows: Indices, pooling: Pooling = "mean"
) -> tuple[Indices, Tensor]:
    """Return the numbers of the words in a batch's sentences, and their vectors `[L + 1, W, D]` by `pooling`."""
    chosen, order = np.flatnonzero(np.isin(words.sentence, rows)), np.argsort(rows)
    place = order[np.searchsorted(rows, words.sentence[chosen], sorter=order)]
    begin, end = words.begin[chosen], words.end[chosen]
    begin, end = {"mean": (begin, end), "first": (begin, begin + 1), "last": (end - 1, end)}[pooling]
    found = layers.new_empty((len(layers), len(chosen), layers.shape[-1]))
    for size in np.unique(end - begin):  # words of as many tokens at once
        of = np.flatnonzero(end - begin == size)
        spans = begin[of][:, None] + np.arange(size)
        at, row, column = (sent(one, layers.device) for one in (of, place[of][:, None], spans))
        found[:, at] = layers[:, row, column].mean(2)
    return chosen, found


def inputs_of(model: nn.Module, encoded: Encoded, rows: Any, pad_id: int) -> dict[str, Tensor]:
    """Return a padded batch as the arguments of a model, on its device."""
    device, batch = next(model.parameters()).device, collate(encoded, rows, pad_id=pad_id)
    takes_types = getattr(model.config, "type_vocab_size", 0)
    names = ("input_ids", "attention_mask", *(("token_type_ids",) if takes_types else ()))
    return {name: sent(getattr(batch, name), device) for name in names}


def sent(array: npt.NDArray[Any], device: torch.device) -> Tensor:
    """Return an array as a tensor on a device, without waiting for a card to receive it."""
    tensor = torch.from_numpy(array)
    return (tensor.pin_memory() if device.type == "cuda" else tensor).to(device, non_blocking=True)


@contextmanager
def embedding_parts(model: nn.Module) -> Iterator[dict[str, Tensor]]:
    """Capture the outputs of the embedding tables and the LayerNorm's input and output, `[B or 1, T, D]`."""
    seen: dict[str, Tensor] = {}

    def hook(name: str, _module: nn.Module, inputs: Any, output: Any) -> None:
        if not isinstance(output, Tensor):  # an embedding module of several outputs has no table's rows
            return
        seen.setdefault(name, (output if output.dim() == 3 else output[None]).detach())
        if name == "normed":
            seen.setdefault("fused", inputs[0].detach())

    captured = {name: _module(model, called, "num_embeddings") for name, called in TABLES.items()}
    captured["normed"] = _module(getattr(model, "embeddings", nn.Module()), NORMS, "normalized_shape")
    with ExitStack() as hooks:
        for name, module in captured.items():
            if module is not None:
                hooks.enter_context(module.register_forward_hook(partial(hook, name)))
        yield seen


def _module(model: nn.Module, called: tuple[str, ...], has: str) -> nn.Module | None:
    """Return the first sub-module whose own name is in `called` and that has the attribute `has`."""
    own = ((name.rpartition(".")[2], module) for name, module in model.named_modules())
    return next((module for name, module in own if name in called and hasattr(module, has)), None)


@torch.no_grad()
def attention(model: nn.Module, probe: ProbeSet, *, pad_id: int, batch_size: int) -> Arrays:
    """Return summaries of attention in the sentences `probe.attended` (S of them), by a pass with eager attention.

    `attention_<summary>` `[L, H, S]` for each field of `geometry.attention.AttentionSummary`, without padding. For the
    first `MAPS` sentences of up to `LONGEST_MAP` tokens also the maps, `attention_map_<i>` `[L, H, T, T]`. Sentences of
    one token are left out. Raises `InputError` for a model that returns no attention, for weights that do not sum to 1
    (attention sinks), and if no sentence is left.
    """
    lengths = probe.encoded.lengths
    rows = probe.attended[lengths[probe.attended] > 1]
    if not len(rows):
        raise InputError("attention: no sentence has two tokens")
    drawn = [int(row) for row in rows if lengths[row] <= LONGEST_MAP][:MAPS]
    summaries: dict[int, AttentionSummary] = {}
    found: Arrays = {}
    before = model.config._attn_implementation  # type: ignore[union-attr]
    if "output_attentions" not in (takes := signature(model.forward).parameters) and "kwargs" not in takes:
        raise InputError(f"attention: {type(model).__name__} returns no maps")
    model.set_attn_implementation("eager")  # type: ignore[operator]
    model.eval()
    try:
        for batch in evaluation_batches(lengths[rows], batch_size=batch_size):
            chosen = rows[batch]
            output = model(**inputs_of(model, probe.encoded, chosen, pad_id), output_attentions=True)
            if not output.get("attentions") or any(layer is None or layer.dim() != 4 for layer in output.attentions):
                raise InputError(f"attention: {type(model).__name__} returns no maps for some layers, or for all")
            for place, sentence in enumerate(map(int, chosen)):
                size = int(lengths[sentence])
                maps = _summing(torch.stack([layer[place, :, :size, :size] for layer in output.attentions]))
                summaries[sentence] = summarise(maps)
                if sentence in drawn:
                    found[f"attention_map_{drawn.index(sentence)}"] = maps
    finally:
        model.set_attn_implementation(before)  # type: ignore[operator]
    for name in AttentionSummary._fields:
        values = [getattr(summaries[int(sentence)], name) for sentence in rows]
        found[f"attention_{name}"] = np.stack(values, -1).astype(np.float32)
    return found


def _summing(maps: Tensor) -> Vectors:
    """Return attention in fp32; of a coarser type, whose rounded weights do not sum to 1, over their sum."""
    found = maps.float()
    if maps.dtype != torch.float32:
        sums = found.sum(-1, keepdim=True)
        found = torch.where((sums - 1).abs() <= torch.finfo(maps.dtype).eps, found / sums, found)  # else a sink
    return found.cpu().numpy()


def kernel(weights: Mapping[str, Tensor]) -> Arrays:
    """Return the fusion kernel `[sources, kh, kw]` from a model's weights, as `kernel`; empty if there is none."""
    for name, value in weights.items():
        if name.endswith("embeddings.fusion.weight") and value.dim() == 3:
            return {"kernel": value.detach().float().cpu().numpy()}
    return {}


HEADS = (
    ("bert.pooler.dense", "classifier"),
    ("classifier.dense", "classifier.out_proj"),
)
"""Names of the two linear maps from [CLS] to class scores, in heads like BERT's and RoBERTa's."""


@torch.no_grad()
def head(model: Any) -> Arrays:
    """Return both maps of a classifier's head: `head_pooler`, `head_classifier`, with biases.

    Empty for a head that is not `C tanh(P x + p) + c`: ELECTRA's has the same names and another activation.
    """
    weights = model.eval().state_dict()
    for pooler, classifier in HEADS:
        called = {
            "head_pooler": f"{pooler}.weight",
            "head_pooler_bias": f"{pooler}.bias",
            "head_classifier": f"{classifier}.weight",
            "head_classifier_bias": f"{classifier}.bias",
        }
        if all(name in weights for name in called.values()):
            inner, shift, outer, last = (weights[key] for key in called.values())
            states = torch.linspace(-1, 1, 3 * inner.shape[1]).to(inner).view(3, 1, -1)
            pooled = model.base_model.pooler(states) if ".pooler." in called["head_pooler"] else states
            ours = torch.tanh(states[:, 0] @ inner.T + shift) @ outer.T + last
            if torch.allclose(ours, model.classifier(pooled), rtol=1e-2, atol=1e-2):
                return {name: weights[key].float().cpu().numpy() for name, key in called.items()}
    return {}
