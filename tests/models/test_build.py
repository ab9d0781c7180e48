"""Models from scratch and from the folder of a plain BERT or RoBERTa: seeds, new keys, errors, how far fusions move."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import (
    BertConfig,
    BertForPreTraining,
    BertForSequenceClassification,
    BertModel,
    RobertaConfig,
    RobertaForMaskedLM,
    RobertaForSequenceClassification,
    RobertaForTokenClassification,
    RobertaModel,
)

from fusions import CONV2D, FFT, FUSIONS, PAD, POSITIONS, SCRATCH, TABLELESS, VOCABULARY, WIDTH, batch, config
from isoscope import plugins
from isoscope.models import (
    FusionBertForCausalLM,
    FusionBertForMaskedLM,
    FusionBertForSequenceClassification,
    build,
    published,
)
from isoscope.models.encoder import load_encoder
from refused import refused

LABELS = ["bad", "good"]
SCRATCHED: dict[str, Any] = SCRATCH | {"labels": ["bad", "fair", "good"], "pad_id": 2}
SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": WIDTH,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 32,
    "initializer_range": 0.3,
}
CONFIGS = {
    "bert": BertConfig(max_position_embeddings=POSITIONS, **SIZES),
    "roberta": RobertaConfig(max_position_embeddings=POSITIONS + PAD + 1, type_vocab_size=1, pad_token_id=PAD, **SIZES),
}


def same(one: nn.Module, other: nn.Module) -> set[str]:
    """Names of the parameters and buffers that are equal to the last bit."""
    others = other.state_dict()
    return {name for name, value in one.state_dict().items() if name in others and torch.equal(value, others[name])}


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """A folder as published: encoder and pooler of a BERT, no heads."""
    torch.manual_seed(5)
    BertModel(CONFIGS["bert"]).save_pretrained(tmp_path / "plain")
    return tmp_path / "plain"


def started(folder: Path, fusion: dict[str, Any], seed: int = 0) -> Any:
    return published.classifier(folder, fusion=fusion, labels=LABELS, seed=seed)


def test_scratch_says_what_it_was_given() -> None:
    model = build.from_scratch(fusion=CONV2D, **SCRATCHED)
    sizes = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4}
    sizes |= {"intermediate_size": 32, "max_position_embeddings": 24, "pad_token_id": 2, "fusion": CONV2D}
    rates = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.2, "init_std": 0.5, "initializer_range": 0.3}
    assert model.config.to_dict().items() >= (sizes | rates).items()
    assert model.config.id2label == {0: "bad", 1: "fair", 2: "good"}
    assert model(**batch()).logits.shape == (3, 3)


@pytest.mark.parametrize("name", ["additive", "conv2d", "fft-residual"])
def test_scratch_is_a_function_of_its_seed_alone(name: str) -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    one = build.from_scratch(fusion=FUSIONS[name], **SCRATCHED)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    again = build.from_scratch(fusion=FUSIONS[name], **SCRATCHED)
    assert same(one, again) == set(one.state_dict())
    other = build.from_scratch(fusion=FUSIONS[name], **SCRATCHED | {"seed": 1})
    drawn = {key for key in one.state_dict() if not key.endswith(("bias", "gate")) and "LayerNorm" not in key}
    assert same(one, other) == set(one.state_dict()) - drawn


def test_arms_share_all_weights_but_the_fusions(plain: Path) -> None:
    for make in (
        lambda fusion: build.from_scratch(fusion=fusion, **SCRATCHED),
        lambda fusion: build.from_scratch(fusion=fusion, **SCRATCHED | {"family": "roberta"}),
        lambda fusion: started(plain, fusion),
    ):
        reference = make(FUSIONS["additive"])
        for name, fusion in FUSIONS.items():
            without = "embeddings.LayerNorm" if name == "marian" else "position_embeddings.weight"
            lacking = {key for key in reference.state_dict() if name in {*TABLELESS, "marian"} and without in key}
            assert same(reference, make(fusion)) == set(reference.state_dict()) - lacking


HEADS = {
    "bert": {"classifier.weight", "classifier.bias"},
    "roberta": {f"classifier.{part}.{kind}" for part in ("dense", "out_proj") for kind in ("weight", "bias")},
}


@pytest.mark.parametrize("name", FUSIONS)
@pytest.mark.parametrize("kind", [BertModel, RobertaForMaskedLM])
def test_a_checkpoint_lacks_only_fusion_and_classifier(kind: Any, name: str, tmp_path: Path) -> None:
    """Of models as published: a BERT without heads, a RoBERTa with the head of its pre-training."""
    family, fusion = kind.config_class.model_type, FUSIONS[name]
    torch.manual_seed(5)
    kind(CONFIGS[family]).save_pretrained(tmp_path)
    held = {key.removeprefix(f"{family}."): value for key, value in load_file(tmp_path / "model.safetensors").items()}
    model = started(tmp_path, fusion)
    state = {key.removeprefix(f"{family}."): value for key, value in model.state_dict().items()}
    own = {f"embeddings.fusion.{key}" for key in model.base_model.embeddings.fusion.state_dict()}
    angles = {"embeddings.position_embeddings.angles"} if name in TABLELESS else set()
    assert state.keys() - held.keys() == HEADS[family] | own | angles
    left_out = ("embeddings.position_embeddings",) * bool(angles) + ("embeddings.LayerNorm",) * (name == "marian")
    unused = {key for key in held if "lm_head" in key or key.startswith(left_out)}
    assert held.keys() - state.keys() == unused
    for key in held.keys() - unused:
        assert torch.equal(state[key], held[key]), key
    assert same(model, started(tmp_path, fusion)) == set(model.state_dict())
    assert not HEADS[family] & {key for key in same(model, started(tmp_path, fusion, seed=1)) if "weight" in key}
    assert model.config.id2label == {0: "bad", 1: "good"}
    assert (model.config.use_cache, model.config.init_std, model.training) == (False, 0.3, False)


@pytest.mark.parametrize("name", ["additive", "conv2d-identity", "conv2d-residual", "fft-residual"])
def test_a_start_that_keeps_what_was_learned(name: str, plain: Path) -> None:
    ours = started(plain, FUSIONS[name]).eval()
    theirs = BertModel.from_pretrained(plain).eval()
    with torch.no_grad():
        a = ours.bert(**batch()).last_hidden_state * batch()["attention_mask"].unsqueeze(-1)
        b = theirs(**batch()).last_hidden_state * batch()["attention_mask"].unsqueeze(-1)
        destroyed = started(plain, CONV2D).eval()
        c = destroyed.bert(**batch()).last_hidden_state
    assert torch.equal(a, b) if name != "conv2d-identity" else torch.allclose(a, b, rtol=0, atol=2e-6)
    assert not torch.allclose(c, b, rtol=0, atol=0.1)


@pytest.mark.parametrize(
    "kind, options",
    [
        (BertForPreTraining, {}),
        (BertModel, {"add_pooling_layer": False}),
        (BertForSequenceClassification, {"num_labels": 2}),
        (BertForSequenceClassification, {"num_labels": 3}),
        (RobertaModel, {}),
        (RobertaForSequenceClassification, {"num_labels": 3}),
        (RobertaForTokenClassification, {"num_labels": 3}),
    ],
)
def test_an_encoder_is_taken_without_its_head_and_a_missing_pooler_is_new(
    kind: Any, options: dict[str, Any], tmp_path: Path
) -> None:
    settings = CONFIGS[kind.config_class.model_type].to_dict() | {"num_labels": options.pop("num_labels", 2)}
    theirs = kind(kind.config_class(**settings), **options).eval()
    theirs.save_pretrained(tmp_path)
    one, again = (started(tmp_path, FUSIONS["additive"]).eval() for _ in range(2))
    assert same(one, again) == set(one.state_dict())
    encoder = theirs.base_model
    assert same(one.base_model, encoder) == encoder.state_dict().keys() & one.base_model.state_dict().keys()
    ours = one.base_model(**batch(padded=True) | {"token_type_ids": None}).last_hidden_state
    assert torch.equal(ours, encoder(**batch(padded=True) | {"token_type_ids": None}).last_hidden_state)
    drawn = (
        [one.classifier] if isinstance(one.classifier, nn.Linear) else [one.classifier.dense, one.classifier.out_proj]
    )
    drawn += [one.bert.pooler.dense] if "add_pooling_layer" in options else []
    for matrix in drawn:
        assert matrix.weight.detach().std() == pytest.approx(0.3, rel=0.5 if matrix.out_features < 10 else 0.2)
    if isinstance(getattr(theirs, "classifier", None), nn.Linear):
        assert not torch.equal(drawn[-1].weight, theirs.classifier.weight[:2])


def test_half_precision_weights_are_read_as_single(plain: Path) -> None:
    BertModel.from_pretrained(plain).half().save_pretrained(plain)
    model = started(plain, CONV2D)
    assert {value.dtype for value in model.state_dict().values()} == {torch.float32}


def test_weights_in_shards_are_read_and_a_pickled_shard_is_not(plain: Path, tmp_path: Path) -> None:
    whole = started(plain, FFT)
    BertModel.from_pretrained(plain).save_pretrained(tmp_path / "shards", max_shard_size="5KB")
    assert len(list((tmp_path / "shards").glob("*.safetensors"))) > 2
    loaded = started(tmp_path / "shards", FFT)
    assert same(whole, loaded) == set(whole.state_dict())
    index = tmp_path / "shards" / "model.safetensors.index.json"
    (tmp_path / "shards" / "x.bin").write_bytes(b"a pickle")
    text = json.loads(index.read_text())
    name = next(iter(text["weight_map"]))
    index.write_text(json.dumps(text | {"weight_map": text["weight_map"] | {name: "x.bin"}}))
    for load in (lambda: started(index.parent, FFT),
                 lambda: load_encoder(index.parent)):  # fmt: skip
        with refused(r"weight_map: .*'x\.bin' is not a \*\.safetensors file in this folder"):
            load()


@pytest.mark.parametrize("load", [lambda folder: started(folder, FFT), load_encoder])
@pytest.mark.parametrize(
    "changed",
    [
        {"hidden_size": "wide"},
        {"hidden_size": -16},
        {"num_attention_heads": 0},
        {"num_attention_heads": 3},
        {"hidden_act": "no such function"},
        {"vocab_size": None},
        {"model_type": []},
        {"model_type": {"a": 1}},
        {"model_type": "no such type"},
        {"attn_implementation": "org/kernel"},
        {"_attn_implementation": "org/kernel"},
        {"quantization_config": {"quant_method": "bitsandbytes", "load_in_8bit": True}},
        {"quantization_config": "no mapping"},
        {"pad_token_id": 99},
        {"dtype": "no such type"},
        {"id2label": 3},
    ],
    ids=str,
)
def test_values_that_fit_no_model_are_refused_in_one_line(
    plain: Path, changed: dict[str, Any], load: Callable[[Path], Any]
) -> None:
    settings = json.loads((plain / "config.json").read_text())
    (plain / "config.json").write_text(json.dumps(settings | changed))
    with refused(re.escape(str(plain))):
        load(plain)


@pytest.mark.parametrize("labels", [["only"], ["same", "same"]], ids=str)
def test_a_classifier_needs_two_different_labels(labels: list[str], plain: Path) -> None:
    with refused("labels: .* expected two or more different names"):
        published.classifier(plain, fusion=CONV2D, labels=labels, seed=0)


def test_a_folder_without_an_encoder_of_a_family_is_refused(plain: Path) -> None:
    settings = json.loads((plain / "config.json").read_text())
    (plain / "config.json").write_text(json.dumps(settings | {"model_type": "gpt2"}))
    with refused("of the model type 'gpt2': it has no embedding block of a word and a position table; set native"):
        started(plain, CONV2D)
    (plain / "config.json").unlink()
    with refused("no config.json; give the folder of a Hugging Face checkpoint"):
        started(plain, CONV2D)


def test_loading_says_nothing(plain: Path, capfd: pytest.CaptureFixture[str]) -> None:
    started(plain, CONV2D)
    assert capfd.readouterr() == ("", "")


def test_how_far_a_fusion_moved() -> None:
    def started(fusion: dict[str, Any]) -> tuple[nn.Module, dict[str, Tensor]]:
        model = build.from_scratch(fusion=fusion, **SCRATCHED)
        return model, {name: value.detach().clone() for name, value in build.fusion_parameters(model).items()}

    model, start = started(CONV2D | {"gate": 0.5})
    assert set(start) == {"bert.embeddings.fusion.weight", "bert.embeddings.fusion.gate"}
    assert build.fusion_distance(model, start) == 0
    with torch.no_grad():
        for value in build.fusion_parameters(model).values():
            value.mul_(1.25)
    assert build.fusion_distance(model, start) == pytest.approx(0.25)
    model, start = started(FFT | {"start": "residual"})
    with torch.no_grad():
        model.bert.embeddings.fusion.gate.fill_(-0.3)  # from 0: no length to compare with
    assert build.fusion_distance(model, start) == pytest.approx(0.3)
    model, start = started(FFT)
    assert start == {}
    assert build.fusion_distance(model, start) is None


class Gated(nn.Module):
    """A plugin's fusion with every kind of state: a matrix, a bare parameter, a buffer that is not saved."""

    def __init__(self, size: int, scale: float) -> None:
        super().__init__()
        self.mix = nn.Linear(size, size)
        self.scale = nn.Parameter(torch.full((size,), scale))
        self.register_buffer("order", torch.arange(size).flip(0), persistent=False)
        self.seen: list[Tensor] = []

    def forward(self, word: Tensor, position: Tensor, token_type: Tensor, mask: Tensor) -> Tensor:
        self.seen = [word, position, token_type, mask]
        around = word + word.roll(1, 1) + word.roll(-1, 1)  # looks at neighbours
        return self.scale * self.mix(around)[..., self.order] + position + token_type


@pytest.fixture
def gated() -> Any:
    """Register the fusion `gated` for one test."""

    @plugins.fusion("gated")
    def gated(hidden_size: int, scale: float) -> nn.Module:
        return Gated(hidden_size, scale)

    yield {"kind": "gated", "scale": 3.0}
    del plugins.FUSIONS.own["gated"]


def test_a_fusion_of_ones_own_starts_by_its_own_code_everywhere(
    gated: dict[str, Any], plain: Path, tmp_path: Path
) -> None:
    scratch = build.from_scratch(fusion=gated, **SCRATCHED)
    loaded = started(plain, gated)
    direct = FusionBertForSequenceClassification.from_pretrained(plain, fusion=gated)
    for model in (scratch, loaded, direct):
        fusion = model.bert.embeddings.fusion
        assert (fusion.scale == 3).all()
        assert torch.equal(fusion.order, torch.arange(16).flip(0))
        assert fusion.mix.weight.abs().max() <= 0.25  # torch's uniform ±1/√16, not our N(0, 0.3²)
        assert fusion.mix.weight.std() > 0.1
    assert same(loaded, started(plain, gated)) == set(loaded.state_dict())
    assert same(scratch, build.from_scratch(fusion=gated, **SCRATCHED)) == set(scratch.state_dict())
    additive = build.from_scratch(fusion=FUSIONS["additive"], **SCRATCHED)
    assert same(additive, scratch) == set(additive.state_dict())
    loaded.save_pretrained(tmp_path / "own")
    again = FusionBertForSequenceClassification.from_pretrained(tmp_path / "own").eval()
    assert torch.equal(again(**batch()).logits, loaded.eval()(**batch()).logits)


def test_a_fusion_of_ones_own_sees_zeros_at_padding(gated: dict[str, Any]) -> None:
    model, inputs = build.from_scratch(fusion=gated, **SCRATCHED).eval(), batch((6, 3))
    together = model(**inputs).logits
    word, position, token_type, mask = model.bert.embeddings.fusion.seen
    assert torch.equal(mask, inputs["attention_mask"].unsqueeze(-1).float())
    for table in (word, position, token_type):
        assert table.shape == (2, 6, 16)
        assert (table[1, 3:] == 0).all()
        assert (table[1, :3] != 0).any()
    del inputs["attention_mask"]
    model(**inputs)
    assert (model.bert.embeddings.fusion.seen[3] == 1).all()
    assert together.shape == (2, 3)


def test_a_fusion_of_ones_own_must_promise_to_be_causal(gated: dict[str, Any]) -> None:
    with refused(r"'gated' does not set `causal = True`"):
        FusionBertForCausalLM(config(gated, is_decoder=True))
    Gated.causal = True
    try:
        FusionBertForCausalLM(config(gated, is_decoder=True))
    finally:
        del Gated.causal
    FusionBertForMaskedLM(config(gated))
    with refused(r"model\.fusion: scale: missing"):
        FusionBertForMaskedLM(config({"kind": "gated"}))


@pytest.mark.parametrize("kernels", [True, False])
@pytest.mark.parametrize("precision, device", [("bf16", "cpu"), ("fp32", "cpu"), ("bf16", "cuda")])
def test_only_bf16_on_a_cpu_without_kernels_for_it_is_warned_of(
    precision: str, device: str, kernels: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: kernels)
    build.warn_of_emulation(precision, device=device, key="training.precision")
    warned = "warning: training.precision: bf16 is emulated" in capsys.readouterr().err
    assert warned == (precision == "bf16" and device == "cpu" and not kernels)


def test_torch_still_says_whether_it_has_the_kernels() -> None:
    assert torch.ops.mkldnn._is_mkldnn_bf16_supported() in (True, False)
