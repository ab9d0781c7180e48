"""A hybrid is exactly its encoder, its map and its decoder."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoModelForSeq2SeqLM

from fusions import FUSIONS, SCRATCH
from isoscope.geometry.linear_maps import LinearMap, identity, procrustes, rotation
from isoscope.models import language_models
from isoscope.models.components import blocks
from isoscope.models.encoder import load_encoder
from isoscope.models.hybrid import FusionBertHybrid, MappedBertModel, hybrid, shorten
from isoscope.objectives.alignment import compared
from isoscope.platform.config.tree import read_yaml
from refused import refused

ROOT = Path(__file__).parents[2]
SHARED = SCRATCH | {"fusion": FUSIONS["additive"], "tied": True, "specials": language_models.Specials(0, 1, 2)}
LENGTHS = (7, 4, 5)


def translates(**changes: Any) -> Any:
    return language_models.from_scratch("translation", **SHARED | {"layers": 4} | changes).eval()


def reads(width: int = 16, layers: int = 2) -> Any:
    return (
        language_models.from_scratch("masked", **SHARED | {"layers": layers, "hidden_size": width, "seed": 1})
        .eval()
        .bert
    )


@pytest.fixture
def text() -> dict[str, torch.Tensor]:
    """Three texts of unequal length."""
    draw = torch.Generator().manual_seed(0)
    mask = (torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]).long()
    return {"input_ids": torch.randint(3, 50, mask.shape, generator=draw) * mask, "attention_mask": mask}


def translated(model: Any, text: dict[str, torch.Tensor], beams: int = 1) -> torch.Tensor:
    found: torch.Tensor = model.generate(**text, max_length=14, do_sample=False, num_beams=beams)
    return found


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("beams", [1, 3])
def test_a_models_own_encoder_and_the_identity_give_its_own_translations(text: Any, tied: bool, beams: int) -> None:
    own = translates(tied=tied)
    joined = hybrid(own.encoder, own, *identity(16))
    assert torch.equal(translated(own, text, beams), translated(joined, text, beams))
    given = text | {"decoder_input_ids": text["input_ids"]}
    assert torch.equal(own(**given).logits, joined(**given).logits)


@pytest.mark.parametrize("scale", [0.0, 1.0])
@pytest.mark.parametrize("width", [16, 24])
def test_without_its_map_an_encoder_has_the_states_that_it_had_before(text: Any, width: int, scale: float) -> None:
    encoder, draw = reads(width), np.random.default_rng(0)
    states = encoder(**text).last_hidden_state
    joined = hybrid(encoder, translates(), scale * draw.normal(size=(width, 16)), scale * draw.normal(size=16))
    assert torch.equal(joined.encoder.unmapped(**text).last_hidden_state, states)
    assert joined.encoder(**text).last_hidden_state.shape == (*states.shape[:2], 16)


def test_spaces_of_unequal_width_have_no_distances() -> None:
    points = np.random.default_rng(0).normal(size=(60, 8))
    equal, wider = compared(points, points), compared(np.hstack([points, points]), points)
    assert equal["r2"] == equal["retrieval_forward"] == 1.0
    assert equal.keys() - wider.keys() == {
        *("error", "r2", "retrieval_forward", "retrieval_back", "cosine_forward", "cosine_back")
    }
    assert wider["cka"] == pytest.approx(1.0)


def test_the_encoder_does_not_see_padding_in_generation(text: Any) -> None:
    """`generate` passes only what `forward` names: without the mask, a padded text has another translation."""
    joined = hybrid(reads(), translates(), *identity(16))
    for row, length in enumerate(LENGTHS):
        alone = translated(joined, {name: one[row : row + 1, :length] for name, one in text.items()})[0]
        together = translated(joined, text)[row, : len(alone)]
        assert torch.equal(alone, together)


def test_a_rotated_encoder_is_rotated_back(text: Any) -> None:
    """With the inverse of a rotation of its states, a model has its own logits, up to rounding."""
    own, turned = translates(), rotation(16, degrees=70, seed=3)
    states = own.encoder(**text).last_hidden_state[text["attention_mask"].bool()].detach().double().numpy()
    back = procrustes(turned.of(states), states)
    both = LinearMap(turned.weights @ back.weights, turned.shift @ back.weights + back.shift)
    joined = hybrid(own.encoder, own, *both)
    given = text | {"decoder_input_ids": text["input_ids"]}
    torch.testing.assert_close(joined(**given).logits, own(**given).logits, rtol=1e-4, atol=1e-4)
    away = hybrid(own.encoder, own, *turned)(**given).logits
    assert not torch.allclose(away, own(**given).logits, atol=0.1), "a decoder notices a rotation"


def test_another_width_and_depth_are_mapped(text: Any, tmp_path: Path) -> None:
    encoder, weights = reads(width=24, layers=3), np.random.default_rng(0).standard_normal((24, 16))
    middle = encoder(**text, output_hidden_states=True).hidden_states[2]
    shorten(encoder, 2)
    joined = hybrid(encoder, translates(), weights, np.ones(16))
    output = joined(**text, output_hidden_states=True)
    torch.testing.assert_close(output.hidden_states[-1], middle)
    torch.testing.assert_close(output.last_hidden_state, middle @ torch.from_numpy(weights).float() + 1.0)
    joined.save_pretrained(tmp_path)
    again = AutoModelForSeq2SeqLM.from_pretrained(tmp_path).eval()
    assert type(again) is FusionBertHybrid is type(AutoModel.from_pretrained(tmp_path))
    assert torch.equal(translated(again, text), translated(joined, text))
    assert type(load_encoder(tmp_path)) is MappedBertModel


def test_the_parts_are_copies_and_only_the_decoder_ties_its_table() -> None:
    own = translates()
    joined = hybrid(own.encoder, own, *identity(16))
    table = joined.decoder.get_input_embeddings().weight
    assert joined.decoder.get_output_embeddings().weight is table
    assert joined.get_input_embeddings().weight is not table
    assert torch.equal(joined.get_input_embeddings().weight, table)
    before = own.encoder.state_dict()["embeddings.word_embeddings.weight"].clone()
    with torch.no_grad():
        joined.get_input_embeddings().weight.zero_()
    assert torch.equal(own.encoder.get_input_embeddings().weight, before)


def test_parts_that_do_not_fit_are_refused() -> None:
    with refused(r"^model\.encoder\.layer: 3, but the encoder has 2 layers"):
        shorten(reads(), 3)
    with refused(r"^model\.encoder\.map: .*\(16, 16\).*\(24, 16\); choose procrustes, ridge"):
        hybrid(reads(width=24), translates(), *identity(16))
    with refused(r"^model\.encoder\.decoder: FusionBertModel is no translation model"):
        hybrid(reads(), reads(), *identity(16))
    joined = hybrid(reads(), translates(), *identity(16))
    with refused(r"^model\.encoder\.encoder: MappedBertModel is not"):
        hybrid(joined.encoder, translates(), *identity(16))


@pytest.mark.parametrize("degrees", [0.0, 30.0, 90.0, 180.0])
def test_a_rotation_turns_each_vector_by_its_angle(degrees: float) -> None:
    points = np.random.default_rng(0).standard_normal((20, 8))
    turned = rotation(8, degrees=degrees, seed=1).of(points)
    cosines = (points * turned).sum(1) / np.linalg.norm(points, axis=1) / np.linalg.norm(turned, axis=1)
    np.testing.assert_allclose(cosines, np.cos(np.deg2rad(degrees)), atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(turned, axis=1), np.linalg.norm(points, axis=1))


@pytest.mark.parametrize("part, held", [
    ("decoder", {"decoder"}), ("encoder", {"encoder"}), ("embeddings", {"encoder"}),
])  # fmt: skip
def test_the_parts_that_an_overlay_freezes_are_those_of_a_hybrid(part: str, held: set[str]) -> None:
    """Of two layers each; the map always learns, and the token-type vector, which is a group with it."""
    overlay = read_yaml(ROOT, Path(f"variants/tuned/frozen_{part}.yaml"))
    joined = hybrid(reads(), translates(), *identity(16))
    known = blocks(joined)
    groups = tuple(f"{group}." for group in overlay["training"]["freeze"]["groups"])
    names = {name for group, own in known.items() if f"{group}.".startswith(groups) for name in own}
    assert {name.split(".")[0] for name in names} == held
    if part != "embeddings":
        left = {name for name, _ in joined.named_parameters() if name.startswith(part)} - names
        learn = {"map.weight", "map.bias", "embeddings.token_type_embeddings.weight"}
        assert left == ({f"encoder.{name}" for name in learn} if part == "encoder" else set())
