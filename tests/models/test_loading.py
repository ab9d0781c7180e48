"""Weights and config.json must say the same: what only one of them has is named, wherever weights are loaded."""

import json
import re
import shlex
import subprocess
import sys
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

from fusions import CONV2D, make
from isoscope.base.errors import InputError
from isoscope.models import FusionBertForMaskedLM, FusionBertForSequenceClassification, build, language
from isoscope.models.encoder import load_classifier, load_encoder, random_encoder
from isoscope.models.exported import read_model

SIZES: dict[str, Any] = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
TRANSLATES: dict[str, Any] = {
    "family": "bert", "layers": 4, "hidden_size": 16, "heads": 2, "intermediate_size": 32, "activation": "relu",
    "norm": "post", "positions": "learned", "max_positions": 24, "dropout": 0.1, "attention_dropout": 0.0,
    "init_std": 0.5, "initializer_range": 0.3, "vocab_size": 50, "specials": language.Specials(0, 2, 3), "seed": 0,
}  # fmt: skip


def bert(kind: Any = BertForMaskedLM) -> Any:
    torch.manual_seed(0)
    return kind(BertConfig(vocab_size=60, max_position_embeddings=24, **SIZES))


def scored() -> Any:
    return GPT2ForSequenceClassification(GPT2Config(vocab_size=60, n_positions=24, n_embd=16, n_layer=1, n_head=2))


MODELS: dict[str, Callable[[], Any]] = {
    "classifier": lambda: make(FusionBertForSequenceClassification, CONV2D, pad_token_id=0),
    "masked": lambda: make(FusionBertForMaskedLM, CONV2D, pad_token_id=0),
    "translation": lambda: language.from_scratch("translation", fusion=CONV2D, tied=True, **TRANSLATES),
    "plain": bert,
}


def started(folder: Path) -> Any:
    return build.from_checkpoint(folder, fusion={"kind": "additive"}, labels=["a", "b"], seed=0)


READERS: dict[str, Callable[[Path], Any]] = {
    "start": started,
    "encoder": load_encoder,
    "classifier": load_classifier,
    "export": read_model,
    "masked": lambda folder: language.from_run("masked", folder),
    "translation": lambda folder: language.from_run("translation", folder),
}
WAYS = [
    ("classifier", "encoder"), ("classifier", "classifier"), ("classifier", "export"), ("masked", "encoder"),
    ("masked", "masked"), ("masked", "export"), ("translation", "encoder"), ("translation", "translation"),
    ("translation", "export"), ("plain", "encoder"), ("plain", "start"),
]  # fmt: skip
WEIGHTS = "model.safetensors"


def change(folder: Path, do: Callable[[dict[str, Any]], Any]) -> None:
    found = load_file(folder / WEIGHTS)
    do(found)
    save_file(found, folder / WEIGHTS, {"format": "pt"})


def configure(folder: Path, do: Callable[[dict[str, Any]], Any]) -> None:
    """Change the configuration, of an encoder-decoder that of its encoder."""
    whole = json.loads((folder / "config.json").read_text("utf-8"))
    do(whole.get("encoder", whole))
    (folder / "config.json").write_text(json.dumps(whole), "utf-8")


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
        lambda folder: change(folder, lambda all_: all_.update({last(all_, QUERY) + "_too": torch.ones(3)})),
        r"does not name: \S*query\.weight_too",
    ),
    "another part of a layer": (
        lambda folder: change(
            folder, lambda all_: all_.update({last(all_, QUERY).replace("query", "adapter"): torch.ones(3)})
        ),
        r"does not name: \S*self\.adapter\.weight",
    ),
    "another table": (
        lambda folder: change(
            folder, lambda all_: all_.update({last(all_, WORDS).replace("word", "shape"): torch.ones(3)})
        ),
        r"does not name: \S*embeddings\.shape_embeddings\.weight",
    ),
    "fewer layers in the configuration": (
        lambda folder: configure(folder, lambda one: one.update(num_hidden_layers=1)),
        r"does not name: \S*encoder\.layer\.1\.",
    ),
    "more layers in the configuration": (
        lambda folder: configure(folder, lambda one: one.update(num_hidden_layers=3)),
        r"weights are missing: \S*encoder\.layer\.2\.",
    ),
    "a missing tensor": (
        lambda folder: change(folder, lambda all_: all_.pop(last(all_, NORM))),
        r"weights are missing: \S*layer\.1\.output\.dense\.bias",
    ),
    "another shape": (
        lambda folder: change(folder, lambda all_: all_.update({last(all_, NORM): torch.ones(7)})),
        r"another shape of \S*layer\.1\.output\.dense\.bias \[7\] \(config\.json: \[16\]\)",
    ),
    "another width in the configuration": (
        lambda folder: configure(folder, lambda one: one.update(intermediate_size=48)),
        r"another shape of \S*intermediate\.dense\.weight \[32, 16\] \(config\.json: \[48, 16\]\)",
    ),
    "no number": (
        lambda folder: change(folder, lambda all_: all_[last(all_, NORM)].fill_(float("nan"))),
        r"layer\.1\.output\.dense\.bias holds NaN",
    ),
}


def refused(read: Callable[[Path], Any], folder: Path, said: str) -> None:
    with pytest.raises(InputError, match=said) as found:
        read(folder)
    assert str(folder) in str(found.value)
    assert "\n" not in str(found.value)


@pytest.mark.parametrize("model, reader, what", [
    *(("classifier", "encoder", what) for what in DAMAGE),
    *((*way, "another tensor in a layer") for way in WAYS),
    *((*way, "a missing tensor") for way in WAYS),
])  # fmt: skip
def test_what_only_one_of_them_has_is_named(model: str, reader: str, what: str, tmp_path: Path) -> None:
    MODELS[model]().save_pretrained(tmp_path)
    READERS[reader](tmp_path)
    damage, said = DAMAGE[what]
    damage(tmp_path)
    refused(READERS[reader], tmp_path, said)


@pytest.mark.parametrize("model, reader", [way for way in WAYS if way[0] != "plain"])
def test_a_fusion_that_the_configuration_lost_is_named(model: str, reader: str, tmp_path: Path) -> None:
    """It would be read as an addition, equal to a plain model bit by bit."""
    MODELS[model]().save_pretrained(tmp_path)
    configure(tmp_path, lambda one: one.pop("fusion"))
    refused(READERS[reader], tmp_path, r"does not name: \S*embeddings\.fusion\.")


@pytest.mark.parametrize(
    "make_it, reader, unused",
    [(bert, load_encoder, "BertModel does not use its cls"), (bert, started, "does not use its cls"),
     (MODELS["classifier"], load_encoder, "FusionBertModel does not use its classifier"),
     (scored, load_encoder, "GPT2Model does not use its score")],
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


@pytest.mark.parametrize("key, value, said", SIZES_WRONG, ids=[f"{key}={value}" for key, value, _ in SIZES_WRONG])
def test_an_absurd_size_is_one_line_and_takes_no_memory(tmp_path: Path, key: str, value: Any, said: str) -> None:
    bert().save_pretrained(tmp_path)
    configure(tmp_path, lambda one: one.update({key: value}))
    for read in (load_encoder, started, lambda folder: random_encoder(folder, seed=1)):
        refused(read, tmp_path, said)


def test_pickled_weights_come_with_the_command_that_converts_them(tmp_path: Path) -> None:
    folder = tmp_path / "a folder's"
    model = bert().eval()
    model.save_pretrained(folder)
    expected = load_encoder(folder).state_dict()
    found = list(load_file(folder / WEIGHTS).items())
    (folder / WEIGHTS).unlink()
    for number, name in enumerate(("pytorch_model-1-of-2.bin", "pytorch_model-2-of-2.bin")):
        torch.save(dict(found[number::2]), folder / name)  # noqa: TID251 - what others give away
    with pytest.raises(InputError, match=r"pickles .* convert them: ") as error:
        load_encoder(folder)
    assert "\n" not in str(error.value)
    command = shlex.split(re.split("convert them: ", str(error.value))[1])
    assert command[0] == "python"
    subprocess.run([sys.executable, *command[1:]], check=True)
    again = load_encoder(folder).state_dict()
    assert all(torch.equal(again[name], expected[name]) for name in again if "pooler" not in name)


def test_no_weights_at_all_are_named(tmp_path: Path) -> None:
    bert().save_pretrained(tmp_path)
    (tmp_path / WEIGHTS).unlink()
    refused(load_encoder, tmp_path, "no weights: expected model.safetensors")
