"""Other people's checkpoints: the digest covers every loadable byte; all else is refused in one line."""

import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from isoscope.base.errors import InputError
from isoscope.data.checkpoints import ADAPTER_CONFIG, INDEX, checkpoint_digest, fetch_checkpoint, loadable_config

DEEP = "[" * 100_000


@pytest.fixture
def sharded(tmp_path: Path) -> Path:
    """Write a checkpoint in two shards, with other files that an index could name."""
    folder = tmp_path / "checkpoint"
    (folder / "sub").mkdir(parents=True)
    (folder / "folder.safetensors").mkdir()
    os.mkfifo(folder / "fifo.safetensors")
    for name in (
        "x.bin",
        "x.SAFETENSORS",
        "sub/x.safetensors",
        "../x.safetensors",
        "one.safetensors",
        "two.safetensors",
    ):
        (folder / name).write_bytes(name.encode())
    (folder / "dangling.safetensors").symlink_to("nowhere")
    (folder / "x.safetensors\n").touch()
    (folder / "config.json").write_text(json.dumps({"model_type": "bert"}))
    point(folder, {"a": "one.safetensors", "b": "two.safetensors"})
    return folder


def point(folder: Path, weight_map: Any, **more: Any) -> None:
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": weight_map} | more))


def refused(folder: Path) -> str:
    """Return the one-line error that both hashing and loading raise."""
    lines = []
    for function in (checkpoint_digest, loadable_config):
        with pytest.raises(InputError) as caught:
            function(folder)
        lines.append(str(caught.value))
    assert lines[0] == lines[1]
    assert "\n" not in lines[0]
    return lines[0]


def test_the_digest_sees_what_a_run_starts_from_and_nothing_else(tmp_path: Path) -> None:
    def digest(**changed: str) -> str:
        folder = tmp_path / hashlib.sha256(repr(changed).encode()).hexdigest()
        folder.mkdir()
        files = {
            "config.json": "{}",
            "model.safetensors": "w",
            "vocab.txt": "[PAD]",
            "README.md": "x",
            "model.onnx": "y",
        }
        for name, content in (files | {key.replace("_", "."): value for key, value in changed.items()}).items():
            (folder / name).write_text(content)
        return checkpoint_digest(folder)

    plain = digest()
    assert plain == digest(README_md="other", model_onnx="other", notes_txt="new")
    assert len({plain, digest(config_json="{ }"), digest(model_safetensors="v"), digest(vocab_txt="[UNK]"),
                digest(tokenizer_json="{}")}) == 5  # fmt: skip
    with pytest.raises(InputError, match=r"no config\.json"):
        checkpoint_digest(tmp_path)


def test_every_file_that_an_index_names_is_hashed(sharded: Path) -> None:
    assert loadable_config(sharded) == {"model_type": "bert"}
    found = {checkpoint_digest(sharded)}
    for name in ("one.safetensors", "two.safetensors"):
        (sharded / name).write_bytes(b"changed")
        found.add(checkpoint_digest(sharded))
    (sharded / "elsewhere").write_bytes(b"one")
    (sharded / "two.safetensors").unlink()
    (sharded / "two.safetensors").symlink_to("elsewhere")  # as the hub's cache has it
    found.add(checkpoint_digest(sharded))
    (sharded / "elsewhere").write_bytes(b"other")
    found.add(checkpoint_digest(sharded))
    assert len(found) == 5


@pytest.mark.parametrize(
    "name",
    ["x.bin", "x.SAFETENSORS", "sub/x.safetensors", "../x.safetensors", "./one.safetensors", "sub/../one.safetensors",
     "{folder}/one.safetensors", "sub\\x.safetensors", "gone.safetensors", "folder.safetensors", "fifo.safetensors",
     "dangling.safetensors", "x.safetensors\n", "one.safetensors\0", "one.safetensors ", "", ".", "..", "config.json",
     INDEX, 3, None, True, ["one.safetensors"], {}],
)  # fmt: skip
def test_an_index_that_names_anything_else_is_refused(sharded: Path, name: Any) -> None:
    name = name.format(folder=sharded) if isinstance(name, str) else name
    for weight_map in ({"only": name}, {"a": "one.safetensors", "b": name}):
        point(sharded, weight_map)
        line = refused(sharded)
        assert line.startswith(f"{sharded / INDEX}: weight_map: {'only' if len(weight_map) == 1 else 'b'}: {name!r}")
    (sharded / "model.safetensors").touch()  # then the index is not used
    checkpoint_digest(sharded)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "3", "null", "{}", '{"metadata": {}}', '{"weight_map": {"a": "one.safetensors"}}',
     '{"metadata": [], "weight_map": {"a": "one.safetensors"}}', '{"metadata": {}, "weight_map": ["one.safetensors"]}',
     '{"metadata": {}, "weight_map": {}}', '{"metadata": {}, "weight_map": null}', DEEP, '{"a": ' * 100_000,
     "9" * 5000, "\udcff"],
)  # fmt: skip
def test_an_index_that_is_none_is_refused(sharded: Path, text: str) -> None:
    (sharded / INDEX).write_bytes(text.encode("utf-8", "surrogateescape"))
    assert refused(sharded).startswith(f"{sharded / INDEX}: ")


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to(path)])
def test_an_index_that_is_no_file_is_refused(sharded: Path, make: Any) -> None:
    (sharded / INDEX).unlink()
    make(sharded / INDEX)
    if (sharded / INDEX).exists():
        assert refused(sharded) == f"{sharded / INDEX}: no such file"
    else:  # for transformers there is none either
        checkpoint_digest(sharded)


@pytest.mark.parametrize(
    "settings, expected",
    [
        ({"auto_map": {"AutoModel": "evil.Evil"}}, "code of its own (auto_map)"),
        ({"configuration_files": ["config.4.0.0.json"]}, "another configuration file (configuration_files)"),
        ({"transformers_weights": "sub/x.safetensors"}, "weights in a file of another name (transformers_weights)"),
        ({"quantization_config": {"quant_method": "bitsandbytes"}}, "quantised weights (quantization_config)"),
        ({"decoder": {"compression_config": {"a": 1}}}, "quantised weights (compression_config)"),
        ({"attn_implementation": "org/kernel"}, "attn_implementation: 'org/kernel' is an external kernel"),
        (
            {"_attn_implementation": "org/kernel@main:f"},
            "_attn_implementation: 'org/kernel@main:f' is an external kernel",
        ),
        (
            {"_attn_implementation": "flash_attention_2"},
            "_attn_implementation: 'flash_attention_2' is an external kernel",
        ),
        ({"text_config": {"attn_implementation": {"": "sdpa", "x": "org/kernel"}}}, "is an external kernel"),
        ({"layers": [{"_attn_implementation": 3}]}, "_attn_implementation: 3 is an external kernel"),
        ({"architectures": [["BertModel"]]}, "architectures: expected a list of class names, got [['BertModel']]"),
        ({"architectures": "BertModel"}, "architectures: expected a list of class names, got 'BertModel'"),
        ({"architectures": {"BertModel": 1}}, "architectures: expected a list of class names"),
        ({"encoder": {"architectures": [3]}}, "architectures: expected a list of class names, got [3]"),
    ],
)
def test_a_configuration_that_asks_for_more_is_refused(sharded: Path, settings: Any, expected: str) -> None:
    (sharded / "config.json").write_text(json.dumps(settings))
    with pytest.raises(InputError, match=f"^{re.escape(str(sharded / 'config.json'))}: .*{re.escape(expected)}"):
        loadable_config(sharded)


def test_what_is_usual_is_not_refused(sharded: Path) -> None:
    usual = {
        "_attn_implementation": "sdpa",
        "attn_implementation": {"": "eager"},
        "quantization_config": None,
        "label2id": {"auto_map": 1},
        "dtype": "float32",
    }
    (sharded / "config.json").write_text(json.dumps(usual))
    assert loadable_config(sharded) == usual


@pytest.mark.parametrize(
    "file, text, expected",
    [
        # Where peft is installed it would be applied, and its settings are in no digest.
        (ADAPTER_CONFIG, '{"peft_type": "LORA"}', "adapters are not supported; merge it"),
        (
            "tokenizer_config.json",
            '{"auto_map": {"AutoTokenizer": ["evil.Evil", null]}}',
            "needs code of its own",
        ),
        *(("config.json", text, "") for text in ("[]", "3", '"bert"', "{", DEEP, "")),
    ],
)
def test_files_that_cannot_be_loaded_are_refused(sharded: Path, file: str, text: str, expected: str) -> None:
    (sharded / file).write_text(text)
    with pytest.raises(InputError, match=f"{re.escape(file)}: .*{re.escape(expected)}"):
        loadable_config(sharded)


def test_a_folder_without_a_configuration_says_where_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hub/mine").mkdir(parents=True)
    monkeypatch.setenv("ISOSCOPE_HUB", str(tmp_path / "hub"))
    folder = tmp_path / "hub/mine"

    def refused(expected: str) -> None:
        for read in (loadable_config, checkpoint_digest, lambda _: fetch_checkpoint("mine", revision="main")):
            with pytest.raises(InputError, match=rf"^checkpoint {folder}: no config\.json; .*{expected}$"):
                read(folder)

    refused("here is nothing")
    for name in ("pytorch_model.bin", "vocab.txt"):
        (folder / name).touch()
    refused("here is pytorch_model.bin, vocab.txt")
    (folder / "deep/epoch-3").mkdir(parents=True)
    (folder / "deep/epoch-3/config.json").write_text("{}")
    refused(f"a checkpoint in it, such as {folder}/deep/epoch-3")
    (folder / "checkpoints/epoch-7").mkdir(parents=True)
    refused(f"the output of a run; give a checkpoint in it, such as {folder}/checkpoints/epoch-7")
