"""Generated text follows the model's own probabilities for every way of generation; each step sees the whole text."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.models.bert.modeling_bert import BertLMHeadModel

from fusions import FUSIONS as ALL
from fusions import SCRATCH, batch, library_model, make
from isoscope.data.special_tokens import Specials
from isoscope.models import FusionBertForCausalLM, FusionRobertaForCausalLM
from isoscope.models.generation import FusedGenerationMixin
from isoscope.models.language_models import from_scratch
from isoscope.models.translation import written
from refused import refused

FUSIONS = ["additive", "conv2d-5x5-bias-gate", "fft-residual"]
CACHED = ["additive", "scaled", "fft-residual"]
KINDS = [FusionBertForCausalLM, FusionRobertaForCausalLM]
GREEDY: dict[str, Any] = {"max_new_tokens": 5, "do_sample": False}


def model_of(kind: Any, fusion: str) -> Any:
    return make(kind, ALL[fusion], is_decoder=True)


def prompt(lengths: tuple[int, ...] = (4, 4)) -> Tensor:
    return batch(lengths, padded=True)["input_ids"]


def by_hand(model: Any, text: Tensor, steps: int = 5) -> Tensor:
    """The most likely token each time, from the logits over the whole text."""
    with torch.no_grad():
        for _ in range(steps):
            text = torch.cat([text, model(text).logits[:, -1:].argmax(-1)], 1)
    return text


@pytest.mark.parametrize("asked", [{}, {"use_cache": True}, {"use_cache": False}], ids=str)
@pytest.mark.parametrize("fusion", FUSIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_each_token_is_the_most_likely(kind: Any, fusion: str, asked: dict[str, bool]) -> None:
    model = model_of(kind, fusion)
    assert torch.equal(model.generate(prompt(), **GREEDY, **asked), by_hand(model, prompt()))


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("both", [False, True], ids=["embedded", "both"])
@pytest.mark.parametrize("fusion", FUSIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_prompt_may_come_embedded(kind: Any, fusion: str, both: bool, beams: int) -> None:
    model = model_of(kind, fusion)
    words = model.get_input_embeddings()(prompt()).detach()
    given = {"inputs_embeds": words} | ({"input_ids": prompt()} if both else {})
    expected = model.generate(prompt(), **GREEDY, num_beams=beams)
    found = model.generate(**given, **GREEDY, num_beams=beams)
    assert torch.equal(found, expected if both else expected[:, 4:])


@pytest.mark.parametrize("fusion", FUSIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_padding_on_the_left_changes_no_text(kind: Any, fusion: str) -> None:
    model, alone = model_of(kind, fusion), prompt((4,))
    padded = torch.cat([torch.full((1, 3), model.config.pad_token_id), alone], 1)
    mask = (torch.arange(7) >= 3).long()[None]
    found = model.generate(padded, attention_mask=mask, **GREEDY)
    assert torch.equal(found[:, 3:], by_hand(model, alone))


@pytest.mark.parametrize("kind", KINDS)
def test_padding_on_the_right_is_refused_where_neighbours_are_read(kind: Any) -> None:
    model = model_of(kind, "conv2d")
    mask = (torch.arange(7) < 4).long()[None]
    padded = torch.cat([prompt((4,)), torch.full((1, 3), model.config.pad_token_id)], 1)
    with refused(r"row 0 restarts at token 7: .* on the left"):
        model.generate(padded, attention_mask=mask, **GREEDY)


@pytest.mark.parametrize("kind", KINDS)
def test_beams_are_as_likely_as_they_say(kind: Any) -> None:
    model = model_of(kind, "conv2d-5x5-bias-gate")
    found = model.generate(
        prompt(), **GREEDY, num_beams=3, length_penalty=0.0, return_dict_in_generate=True, output_scores=True
    )
    with torch.no_grad():
        logs = model(found.sequences).logits.log_softmax(-1)[:, 3:-1]
    total = logs.gather(2, found.sequences[:, 4:, None]).sum((1, 2))
    torch.testing.assert_close(found.sequences_scores, total, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("more", [{}, {"num_beams": 3}, {"repetition_penalty": 1.5}], ids=str)
def test_without_a_kernel_a_text_goes_on_as_in_bert(more: dict[str, Any]) -> None:
    ours = model_of(FusionBertForCausalLM, "additive")
    theirs = library_model(ours, BertLMHeadModel, use_cache=True)
    assert torch.equal(ours.generate(prompt(), **GREEDY, **more), theirs.generate(prompt(), **GREEDY, **more))


@pytest.mark.parametrize("kind", KINDS)
def test_a_cache_is_neither_made_nor_taken(kind: Any) -> None:
    model = make(kind, ALL["conv2d"], is_decoder=True, use_cache=True)
    assert model.config.use_cache is False
    assert model.generation_config.use_cache is False
    assert model(prompt(), use_cache=True).past_key_values is None
    assert torch.equal(model(prompt(), use_cache=True).logits, model(prompt()).logits)
    past = {"past_key_values": DynamicCache(config=model.config)}
    for ask in (
        lambda: model(prompt(), **past),
        lambda: model.generate(prompt(), **GREEDY, **past),
        lambda: model.generate(prompt(), **GREEDY, cache_implementation="static"),
        lambda: model.generate(prompt(), **GREEDY, prompt_lookup_num_tokens=2),
    ):
        with refused("keeps no cache"):
            ask()


@pytest.mark.parametrize("changes", [{}, {"norm": "pre"}, {"positions": "sinusoidal"}], ids=str)
@pytest.mark.parametrize("fusion", CACHED)
def test_where_a_fusion_reads_no_neighbours_a_cache_gives_the_same_logits(fusion: str, changes: dict[str, Any]) -> None:
    model = make(FusionBertForCausalLM, ALL[fusion], is_decoder=True, **changes)
    text = prompt((6, 6))
    with torch.no_grad():
        first = model(text[:, :4], past_key_values=DynamicCache(config=model.config))
        rest = model(text[:, 4:], past_key_values=first.past_key_values)
        found = torch.cat([first.logits, rest.logits], 1)
        torch.testing.assert_close(found, model(text).logits, rtol=1e-5, atol=1e-5)
        lost = model(text[:, 4:]).logits  # a negative control: without the cache the first tokens are not seen
    assert (lost - rest.logits).abs().max() > 1e-3


@pytest.mark.parametrize("beams", [1, 4])
@pytest.mark.parametrize("changes", [{}, {"norm": "pre"}, {"positions": "sinusoidal"}], ids=str)
@pytest.mark.parametrize("fusion", CACHED)
def test_a_translation_is_the_same_with_a_cache(fusion: str, changes: dict[str, Any], beams: int) -> None:
    """Of padded texts, greedily and by a beam search."""
    options = SCRATCH | {"layers": 4, "initializer_range": 0.5, "seed": 1} | changes
    specials = Specials(pad=0, begin=1, end=2)
    model = from_scratch("translation", tied=True, specials=specials, fusion=ALL[fusion], **options).eval()
    assert model.caches
    random = np.random.default_rng(0)
    read = [np.array([1, *random.integers(3, 40, length), 2]) for length in (3, 9, 6)]
    found = written(model, read, beams=beams, max_length=20)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FusedGenerationMixin, "caches", False)
        assert written(model, read, beams=beams, max_length=20) == found
    assert len({tuple(one) for one in found}) > 1  # what is read makes a difference


def test_a_fusion_that_reads_neighbours_keeps_none() -> None:
    assert not model_of(FusionBertForCausalLM, "conv2d").caches
    assert not model_of(FusionRobertaForCausalLM, "additive").caches  # its positions depend on earlier padding
