"""Weights and config.json must say the same: what only one of them has is named, wherever weights are loaded."""

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    BertConfig,
    BertForMaskedLM,
    GPT2Config,
    GPT2ForSequenceClassification,
    T5Config,
    T5EncoderModel,
)

from fusions import CONV2D, SCRATCH, make
from isoscope.models import FusionBertForMaskedLM, FusionBertForSequenceClassification, language_models, published
from isoscope.models.encoder import load_classifier, load_encoder, random_encoder
from isoscope.models.exported import read_model
from refused import refused

SIZES: dict[str, Any] = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
TRANSLATES: dict[str, Any] = SCRATCH | {"layers": 4, "tied": True, "specials": language_models.Specials(0, 2, 3)}


def bert(kind: Any = BertForMaskedLM) -> Any:
    torch.manual_seed(0)
    return kind(BertConfig(vocab_size=60, max_position_embeddings=24, **SIZES))


MODELS: dict[str, Callable[[], Any]] = {
    "classifier": lambda: make(FusionBertForSequenceClassification, CONV2D, pad_token_id=0),
    "masked": lambda: make(FusionBertForMaskedLM, CONV2D, pad_token_id=0),
    "translation": lambda: language_models.from_scratch("translation", fusion=CONV2D, **TRANSLATES),
    "plain": bert,
}


def started(folder: Path) -> Any:
    return published.classifier(folder, fusion={"kind": "additive"}, labels=["a", "b"], seed=0)


READERS: dict[str, Callable[[Path], Any]] = {
    "start": started,
    "encoder": load_encoder,
    "classifier": load_classifier,
    "export": read_model,
    "masked": lambda folder: language_models.from_run("masked", folder),
    "translation": lambda folder: language_models.from_run("translation", folder),
}
WAYS = [
    ("classifier", "encoder"), ("classifier", "classifier"), ("classifier", "export"), ("masked", "encoder"),
    ("masked", "masked"), ("masked", "export"), ("translation", "encoder"), ("translation", "translation"),
    ("translation", "export"), ("plain", "encoder"), ("plain", "start"),
]  # fmt: skip
WEIGHTS = "model.safetensors"


def weights(do: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    """Damage that changes the weights of a folder."""

    def damage(folder: Path) -> None:
        found = load_file(folder / WEIGHTS)
        do(found)
        save_file(found, folder / WEIGHTS, {"format": "pt"})

    return damage


def configuration(do: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    """Damage that changes the configuration, of an encoder-decoder that of its encoder."""

    def damage(folder: Path) -> None:
        whole = json.loads((folder / "config.json").read_text("utf-8"))
        do(whole.get("encoder", whole))
        (folder / "config.json").write_text(json.dumps(whole), "utf-8")

    return damage


def last(names: Any, end: str) -> str:
    """The name with this end, of an encoder-decoder that of its encoder."""
    return max(name for name in names if name.endswith(end))


QUERY, WORDS, NORM = (
    "encoder.layer.0.attention.self.query.weight",
    "word_embeddings.weight",
    "layer.1.output.dense.bias",
)
DAMAGE: dict[str, tuple[Callable[[Path], None], str]] = {
    "another tensor in a layer": (
        weights(lambda own: own.update({last(own, QUERY) + "_too": torch.ones(3)})),
        r"does not name: \S*query\.weight_too",
    ),
    "another part of a layer": (
        weights(lambda own: own.update({last(own, QUERY).replace("query", "adapter"): torch.ones(3)})),
        r"does not name: \S*self\.adapter\.weight",
    ),
    "another table": (
        weights(lambda own: own.update({last(own, WORDS).replace("word", "shape"): torch.ones(3)})),
        r"does not name: \S*embeddings\.shape_embeddings\.weight",
    ),
    "fewer layers in the configuration": (
        configuration(lambda one: one.update(num_hidden_layers=1)),
        r"does not name: \S*encoder\.layer\.1\.",
    ),
    "more layers in the configuration": (
        configuration(lambda one: one.update(num_hidden_layers=3)),
        r"weights are missing: \S*encoder\.layer\.2\.",
    ),
    "a missing tensor": (
        weights(lambda own: own.pop(last(own, NORM))),
        r"weights are missing: \S*layer\.1\.output\.dense\.bias",
    ),
    "another shape": (
        weights(lambda own: own.update({last(own, NORM): torch.ones(7)})),
        r"another shape of \S*layer\.1\.output\.dense\.bias \[7\] \(config\.json: \[16\]\)",
    ),
    "another width in the configuration": (
        configuration(lambda one: one.update(intermediate_size=48)),
        r"another shape of \S*intermediate\.dense\.weight \[32, 16\] \(config\.json: \[48, 16\]\)",
    ),
    "no number": (
        weights(lambda own: own[last(own, NORM)].fill_(float("nan"))),
        r"layer\.1\.output\.dense\.bias holds NaN",
    ),
    "no fusion in the configuration": (  # it would be read as an addition, equal to a plain model bit by bit
        configuration(lambda one: one.pop("fusion")),
        r"does not name: \S*embeddings\.fusion\.",
    ),
    "no weights": (lambda folder: (folder / WEIGHTS).unlink(), "no weights: expected model.safetensors"),
}


def check_refused(read: Callable[[Path], Any], folder: Path, said: str) -> None:
    with refused(said) as found:
        read(folder)
    assert str(folder) in str(found.value)


@pytest.mark.parametrize("model, reader, what", [
    *(("classifier", "encoder", what) for what in DAMAGE),
    *((*way, "another tensor in a layer") for way in WAYS),
    *((*way, "a missing tensor") for way in WAYS),
    *((*way, "no fusion in the configuration") for way in WAYS if way[0] != "plain"),
])  # fmt: skip
def test_what_only_one_of_them_has_is_named(model: str, reader: str, what: str, tmp_path: Path) -> None:
    MODELS[model]().save_pretrained(tmp_path)
    READERS[reader](tmp_path)
    damage, said = DAMAGE[what]
    damage(tmp_path)
    check_refused(READERS[reader], tmp_path, said)


@pytest.mark.parametrize(
    "make_it, reader, unused",
    [(bert, load_encoder, "BertModel does not use its cls"), (bert, started, "does not use its cls"),
     (MODELS["classifier"], load_encoder, "FusionBertModel does not use its classifier"),
     (lambda: GPT2ForSequenceClassification(GPT2Config(vocab_size=60, n_embd=16, n_layer=1, n_head=2)), load_encoder,
      "GPT2Model does not use its score")],
)  # fmt: skip
def test_a_head_that_is_not_used_is_named_in_one_line(
    make_it: Any, reader: Any, unused: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = [tmp_path / name for name in ("step-1", "step-2")]
    for folder in folders:
        make_it().save_pretrained(folder)
    capsys.readouterr()
    for folder in folders * 2:
        reader(folder)
    (line,) = capsys.readouterr().err.splitlines()
    assert unused in line
    assert str(folders[0]) in line


def test_an_encoder_alone_may_lack_the_decoder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2}
    T5EncoderModel(T5Config(vocab_size=60, **sizes)).save_pretrained(tmp_path)
    capsys.readouterr()
    load_encoder(tmp_path)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("model, reader", WAYS)
def test_a_loaded_model_has_forgotten_its_folder(model: str, reader: str, tmp_path: Path) -> None:
    """What it is saved as must not depend on where it was read."""
    place = tmp_path / "a-place-of-its-own"
    MODELS[model]().save_pretrained(place)
    READERS[reader](place).save_pretrained(tmp_path / "again")
    assert "a-place-of-its-own" not in (tmp_path / "again" / "config.json").read_text("utf-8")


SIZES_WRONG: list[tuple[str, Any, str]] = [
    ("num_hidden_layers", 10**7, "num_hidden_layers: 10000000"),
    ("num_hidden_layers", -3, "num_hidden_layers: -3"),
    ("num_hidden_layers", "many", "num_hidden_layers.*expected int"),
    ("num_hidden_layers", float("nan"), "num_hidden_layers: nan"),
    ("n_layers", 10**12, "n_layers"),
    ("num_decoder_layers", 10**9, "num_decoder_layers"),
    ("num_local_experts", 10**9, "num_local_experts"),
    ("hidden_size", 10**9, "hidden_size: 1000000000"),
    ("hidden_size", 0, "hidden_size: 0"),
    ("hidden_size", 64, r"another shape of.*\[60, 64\]"),
    ("vocab_size", 10**12, "vocab_size"),
    ("vocab_size", 61, r"\[60, 16\] \(config.json: \[61, 16\]\)"),
    ("intermediate_size", -1, "intermediate_size"),
    ("max_position_embeddings", 10**10, "max_position_embeddings"),
    ("type_vocab_size", 10**12, "token_type_embeddings"),
    ("num_attention_heads", 3, "multiple of the number of attention heads"),
    ("num_labels", 10**9, "num_labels"),
    ("layer_norm_eps", float("nan"), "layer_norm_eps: nan"),
    ("initializer_range", float("inf"), "initializer_range: inf"),
    ("hidden_size", None, "config.json: StrictDataclass.*hidden_size"),
]


@pytest.mark.parametrize("read", [load_encoder, started, lambda folder: random_encoder(folder, seed=1)])
@pytest.mark.parametrize("key, value, said", SIZES_WRONG, ids=[f"{key}={value}" for key, value, _ in SIZES_WRONG])
def test_an_absurd_size_is_one_line_and_takes_no_memory(
    tmp_path: Path, key: str, value: Any, said: str, read: Callable[[Path], Any]
) -> None:
    bert().save_pretrained(tmp_path)
    configuration(lambda one: one.update({key: value}))(tmp_path)
    check_refused(read, tmp_path, said)


def test_pickled_weights_come_with_the_command_that_converts_them(tmp_path: Path) -> None:
    folder = tmp_path / "a folder's"
    bert().save_pretrained(folder)
    (folder / WEIGHTS).rename(folder / "pytorch_model.bin")
    with refused(r"pickles .* convert them: ") as error:
        load_encoder(folder)
    command = shlex.split(re.split("convert them: ", str(error.value))[1])
    assert command == ["isoscope", "convert", str(folder), "OUT"]
