"""Models from scratch and from a plain BERT folder: seeds, new keys, errors, freezing, distance from the start."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import BertConfig, BertForPreTraining, BertForSequenceClassification, BertModel

from fusions import CONV2D, FFT, FUSIONS, TABLELESS, batch, config
from isoscope import plugins
from isoscope.base.errors import InputError
from isoscope.models import FusionBertForCausalLM, FusionBertForMaskedLM, FusionBertForSequenceClassification, build
from isoscope.models.encoder import load_encoder

SCRATCH: dict[str, Any] = {
    "family": "bert",
    "vocab_size": 50,
    "hidden_size": 16,
    "layers": 2,
    "heads": 4,
    "intermediate_size": 32,
    "activation": "gelu",
    "norm": "post",
    "positions": "learned",
    "max_positions": 24,
    "dropout": 0.1,
    "attention_dropout": 0.2,
    "init_std": 0.5,
    "initializer_range": 0.3,
    "labels": ["bad", "fair", "good"],
    "pad_id": 2,
    "seed": 0,
}
PLAIN = BertConfig(
    vocab_size=50,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=32,
    max_position_embeddings=24,
    initializer_range=0.3,
)
LABELS = ["bad", "good"]


def same(one: nn.Module, other: nn.Module) -> set[str]:
    """Names of the parameters and buffers that are equal to the last bit."""
    others = other.state_dict()
    return {name for name, value in one.state_dict().items() if name in others and torch.equal(value, others[name])}


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """A folder as published: encoder and pooler of a BERT, no heads."""
    torch.manual_seed(5)
    BertModel(PLAIN).save_pretrained(tmp_path / "plain")
    return tmp_path / "plain"


def test_scratch_says_what_it_was_given() -> None:
    model = build.from_scratch(fusion=CONV2D, **SCRATCH)
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
    one = build.from_scratch(fusion=FUSIONS[name], **SCRATCH)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    again = build.from_scratch(fusion=FUSIONS[name], **SCRATCH)
    assert same(one, again) == set(one.state_dict())
    other = build.from_scratch(fusion=FUSIONS[name], **SCRATCH | {"seed": 1})
    drawn = {key for key in one.state_dict() if not key.endswith(("bias", "gate")) and "LayerNorm" not in key}
    assert same(one, other) == set(one.state_dict()) - drawn


def test_arms_share_all_weights_but_the_fusions(plain: Path) -> None:
    for make in (
        lambda fusion: build.from_scratch(fusion=fusion, **SCRATCH),
        lambda fusion: build.from_scratch(fusion=fusion, **SCRATCH | {"family": "roberta"}),
        lambda fusion: build.from_checkpoint(plain, fusion=fusion, labels=LABELS, seed=0),
    ):
        reference = make(FUSIONS["additive"])
        for name, fusion in FUSIONS.items():
            table = {key for key in reference.state_dict() if name in TABLELESS and "position_embeddings.weight" in key}
            assert same(reference, make(fusion)) == set(reference.state_dict()) - table


@pytest.mark.parametrize("name", FUSIONS)
def test_a_checkpoint_lacks_only_fusion_and_classifier(name: str, plain: Path) -> None:
    model = build.from_checkpoint(plain, fusion=FUSIONS[name], labels=LABELS, seed=0)
    held = load_file(plain / "model.safetensors")
    new = {key for key in model.state_dict() if key.removeprefix("bert.") not in held}
    fusion = {f"bert.embeddings.fusion.{key}" for key in model.bert.embeddings.fusion.state_dict()}
    angles = {"bert.embeddings.position_embeddings.angles"} if name in TABLELESS else set()
    assert new == {"classifier.weight", "classifier.bias"} | fusion | angles
    for key, value in held.items():
        if not (name in TABLELESS and key.startswith("embeddings.position_embeddings")):
            assert torch.equal(model.state_dict()[f"bert.{key}"], value), key
    again = build.from_checkpoint(plain, fusion=FUSIONS[name], labels=LABELS, seed=0)
    assert same(model, again) == set(model.state_dict())
    other = build.from_checkpoint(plain, fusion=FUSIONS[name], labels=LABELS, seed=1)
    assert "classifier.weight" not in same(model, other)
    assert model.config.id2label == {0: "bad", 1: "good"}
    assert model.classifier.weight.detach().std() == pytest.approx(0.3, rel=0.5)
    assert (model.config.use_cache, model.config.init_std, model.training) == (False, 0.3, False)


@pytest.mark.parametrize("name", ["additive", "conv2d-identity", "conv2d-residual", "fft-residual"])
def test_a_start_that_keeps_what_was_learned(name: str, plain: Path) -> None:
    ours = build.from_checkpoint(plain, fusion=FUSIONS[name], labels=LABELS, seed=0).eval()
    theirs = BertModel.from_pretrained(plain).eval()
    with torch.no_grad():
        a = ours.bert(**batch()).last_hidden_state * batch()["attention_mask"].unsqueeze(-1)
        b = theirs(**batch()).last_hidden_state * batch()["attention_mask"].unsqueeze(-1)
        destroyed = build.from_checkpoint(plain, fusion=CONV2D, labels=LABELS, seed=0).eval()
        c = destroyed.bert(**batch()).last_hidden_state
    assert torch.equal(a, b) if name != "conv2d-identity" else torch.allclose(a, b, rtol=0, atol=2e-6)
    assert not torch.allclose(c, b, rtol=0, atol=0.1)


def test_heads_of_pretraining_are_dropped_and_a_missing_pooler_is_new(tmp_path: Path) -> None:
    BertForPreTraining(PLAIN).save_pretrained(tmp_path / "heads")
    build.from_checkpoint(tmp_path / "heads", fusion=FFT, labels=LABELS, seed=0)
    BertModel(PLAIN, add_pooling_layer=False).save_pretrained(tmp_path / "bare")
    one, again = (build.from_checkpoint(tmp_path / "bare", fusion=FFT, labels=LABELS, seed=0) for _ in range(2))
    assert same(one, again) == set(one.state_dict())
    assert one.bert.pooler.dense.weight.detach().std() == pytest.approx(0.3, rel=0.2)


@pytest.mark.parametrize("classes", [2, 3])
def test_a_foreign_classifier_is_never_taken_over(classes: int, tmp_path: Path) -> None:
    theirs = BertForSequenceClassification(BertConfig(**PLAIN.to_dict() | {"num_labels": classes}))
    theirs.save_pretrained(tmp_path / "theirs")
    one, again = (build.from_checkpoint(tmp_path / "theirs", fusion=FFT, labels=LABELS, seed=0) for _ in range(2))
    assert same(one, again) == set(one.state_dict())
    assert same(one.bert, theirs.bert) == set(theirs.bert.state_dict())
    assert not torch.equal(one.classifier.weight, theirs.classifier.weight[:2])
    assert one.classifier.weight.detach().std() == pytest.approx(0.3, rel=0.5)


def test_half_precision_weights_are_read_as_single(plain: Path) -> None:
    BertModel.from_pretrained(plain).half().save_pretrained(plain)
    model = build.from_checkpoint(plain, fusion=CONV2D, labels=LABELS, seed=0)
    assert {value.dtype for value in model.state_dict().values()} == {torch.float32}


def test_weights_in_shards_are_read_and_a_pickled_shard_is_not(plain: Path, tmp_path: Path) -> None:
    whole = build.from_checkpoint(plain, fusion=FFT, labels=LABELS, seed=0)
    BertModel.from_pretrained(plain).save_pretrained(tmp_path / "shards", max_shard_size="5KB")
    assert len(list((tmp_path / "shards").glob("*.safetensors"))) > 2
    loaded = build.from_checkpoint(tmp_path / "shards", fusion=FFT, labels=LABELS, seed=0)
    assert same(whole, loaded) == set(whole.state_dict())
    index = tmp_path / "shards" / "model.safetensors.index.json"
    (tmp_path / "shards" / "x.bin").write_bytes(b"a pickle")
    text = json.loads(index.read_text())
    name = next(iter(text["weight_map"]))
    index.write_text(json.dumps(text | {"weight_map": text["weight_map"] | {name: "x.bin"}}))
    for load in (lambda: build.from_checkpoint(index.parent, fusion=FFT, labels=LABELS, seed=0),
                 lambda: load_encoder(index.parent)):  # fmt: skip
        with pytest.raises(InputError, match=r"weight_map: .*'x\.bin' is not a \*\.safetensors file in this folder"):
            load()


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
def test_values_that_fit_no_model_are_refused_in_one_line(plain: Path, changed: dict[str, Any]) -> None:
    settings = json.loads((plain / "config.json").read_text())
    (plain / "config.json").write_text(json.dumps(settings | changed))
    for load in (lambda: build.from_checkpoint(plain, fusion=FFT, labels=LABELS, seed=0), lambda: load_encoder(plain)):
        with pytest.raises(InputError) as caught:
            load()
        assert "\n" not in str(caught.value)
        assert str(plain) in str(caught.value)


def test_bad_checkpoints_are_refused_in_one_line(plain: Path, tmp_path: Path) -> None:
    def refused(expected: str, labels: list[str] = LABELS) -> None:
        with pytest.raises(InputError, match=expected) as caught:
            build.from_checkpoint(plain, fusion=CONV2D, labels=labels, seed=0)
        assert "\n" not in str(caught.value)

    refused("labels: .* expected two or more different names", ["only"])
    refused("labels: .* expected two or more different names", ["same", "same"])
    settings = json.loads((plain / "config.json").read_text())
    (plain / "config.json").write_text(json.dumps(settings | {"model_type": "gpt2"}))
    refused("model type 'gpt2', expected 'bert' or 'roberta'")
    (plain / "config.json").unlink()
    refused("no config.json; give the folder of a Hugging Face checkpoint")


def test_loading_says_nothing(plain: Path, capfd: pytest.CaptureFixture[str]) -> None:
    build.from_checkpoint(plain, fusion=CONV2D, labels=LABELS, seed=0)
    assert capfd.readouterr() == ("", "")


def test_how_far_a_fusion_moved() -> None:
    def started(fusion: dict[str, Any]) -> tuple[nn.Module, dict[str, Tensor]]:
        model = build.from_scratch(fusion=fusion, **SCRATCH)
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
    scratch = build.from_scratch(fusion=gated, **SCRATCH)
    loaded = build.from_checkpoint(plain, fusion=gated, labels=LABELS, seed=0)
    direct = FusionBertForSequenceClassification.from_pretrained(plain, fusion=gated)
    for model in (scratch, loaded, direct):
        fusion = model.bert.embeddings.fusion
        assert (fusion.scale == 3).all()
        assert torch.equal(fusion.order, torch.arange(16).flip(0))
        assert fusion.mix.weight.abs().max() <= 0.25  # torch's uniform ±1/√16, not our N(0, 0.3²)
        assert fusion.mix.weight.std() > 0.1
    assert same(loaded, build.from_checkpoint(plain, fusion=gated, labels=LABELS, seed=0)) == set(loaded.state_dict())
    assert same(scratch, build.from_scratch(fusion=gated, **SCRATCH)) == set(scratch.state_dict())
    additive = build.from_scratch(fusion=FUSIONS["additive"], **SCRATCH)
    assert same(additive, scratch) == set(additive.state_dict())
    loaded.save_pretrained(tmp_path / "own")
    again = FusionBertForSequenceClassification.from_pretrained(tmp_path / "own").eval()
    assert torch.equal(again(**batch()).logits, loaded.eval()(**batch()).logits)


def test_a_fusion_of_ones_own_sees_zeros_at_padding(gated: dict[str, Any]) -> None:
    model, inputs = build.from_scratch(fusion=gated, **SCRATCH).eval(), batch((6, 3))
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
    with pytest.raises(InputError, match=r"'gated' does not set `causal = True`"):
        FusionBertForCausalLM(config(gated, is_decoder=True))
    Gated.causal = True
    try:
        FusionBertForCausalLM(config(gated, is_decoder=True))
    finally:
        del Gated.causal
    FusionBertForMaskedLM(config(gated))
    with pytest.raises(InputError, match=r"model\.fusion: scale: missing"):
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
