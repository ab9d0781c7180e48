"""A model as a folder that transformers loads without isoscope, and its comparison with the model that it is from.

They are compared in a process that cannot import isoscope.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from isoscope.base.errors import InputError, RunError
from isoscope.base.registry import FUSIONS
from isoscope.data import tokens
from isoscope.data.checkpoints import MODEL_CONFIG, TOKENIZER_CONFIG, tokenizer_of
from isoscope.data.files import read_mapping
from isoscope.data.hub import TOKENIZER_FILES
from isoscope.models import families, hybrid, loaded_alone, translation
from isoscope.models.encoder import checkpoint_config, positions
from isoscope.models.loading import pretrained, quiet
from isoscope.models.plain_form import as_plain, plain_reasons
from isoscope.models.remote_code import write_code

_LENGTHS = (3, 24, 11, 7)
"""Tokens of the texts that are compared, if the model has so many positions."""
ROUNDING = 1e-6
"""Accepted difference as a share of the largest value: sums of three embeddings in another order differ by rounding."""


class Exported(NamedTuple):
    """The folder of an export, the model in it, the Auto class that loads it, and whether it has Python code."""

    folder: Path
    model: Any
    loader: str
    code: bool


class Checked(NamedTuple):
    """The largest difference, the names of the outputs compared, and the number of their values."""

    difference: float
    outputs: tuple[str, ...]
    values: int


def read_model(folder: Path) -> Any:
    """Load a checkpoint's model with its head, in evaluation mode; raise `InputError` if no class has its name."""
    _check_fusion(folder)
    config = checkpoint_config(folder)
    name, *_ = config.architectures or [""]
    found = [vars(module)[name] for module in (families, translation, hybrid) if name in vars(module)]
    mappings: list[Any] = [auto._model_mapping for auto in families.HEADS.values()]
    found += [one[type(config)] for one in mappings if type(config) in one and one[type(config)].__name__ == name]
    if not found:
        what = name or f"model type {config.model_type!r}"
        raise InputError(f"checkpoint {folder}: {what} is no architecture of isoscope; it needs no export")
    return pretrained(found[0], folder, config).eval()


def _check_fusion(folder: Path) -> None:
    """Raise `InputError` if a fusion is from a plugin."""
    settings = read_mapping(folder / MODEL_CONFIG) if (folder / MODEL_CONFIG).is_file() else {}
    for part in (settings, settings.get("encoder"), settings.get("decoder")):
        fusion = part.get("fusion") if isinstance(part, dict) else None
        kind = fusion.get("kind") if isinstance(fusion, dict) else "additive"
        if kind not in FUSIONS.modules:
            raise InputError(
                f"checkpoint {folder}: the fusion {kind!r} is from a plugin, and only built-in fusions are exported "
                f"({', '.join(FUSIONS.modules)}); give the plugin's file away with the checkpoint"
            )


def write(model: Any, source: Path, folder: Path, *, loader: str, form: str | None) -> tuple[Exported, list[str]]:
    """Write weights, configuration, tokenizer and, in the form code, Python files to an existing folder.

    `loader`: the Auto class that loads it. `form` plain: transformers' own class; code: with isoscope's Python files;
    None: plain where this is exact. Returns the export, and why it has its form. Raises `InputError` if `source` has no
    tokenizer, or if `form` is impossible.
    """
    plain, reasons = None, ["asked for with --code"]
    if form != "code":
        try:
            reasons = plain_reasons(model)
            plain = as_plain(model)
        except InputError as error:
            if form == "plain":
                raise InputError(f"--plain: {error}; use --code, or neither option") from None
            reasons = [str(error)]
    with quiet():
        (plain or model).save_pretrained(folder)
    if plain is None:
        settings = read_mapping(folder / MODEL_CONFIG) | {"auto_map": write_code(type(model), _classes(model), folder)}
        (folder / MODEL_CONFIG).write_text(json.dumps(settings, indent=2, sort_keys=True) + "\n", "utf-8")
    for file in folder.glob("*.safetensors"):
        file.chmod((folder / MODEL_CONFIG).stat().st_mode)  # safetensors lets nobody else read what it writes
    _write_tokenizer(source, folder, model.config.model_type)
    return Exported(folder, model, loader, code=plain is None), reasons


def _write_tokenizer(source: Path, folder: Path, model_type: str) -> None:
    """Copy the tokenizer's files, and name its class, which transformers cannot tell from our model types.

    Raises `InputError` if there is none.
    """
    tokens.load(source := tokenizer_of(source))
    shutil.copytree(source, folder, ignore=_other_than_tokenizer, dirs_exist_ok=True)
    if not model_type.startswith("fusion-"):
        return
    by_word = (source / "vocab.txt").is_file() or "roberta" not in model_type
    file = folder / TOKENIZER_CONFIG
    options = {"tokenizer_class": "BertTokenizer" if by_word else "RobertaTokenizer"}
    options |= read_mapping(file) if file.is_file() else {}
    file.write_text(json.dumps(options, indent=2, sort_keys=True, ensure_ascii=False) + "\n", "utf-8")


def _other_than_tokenizer(_: str, names: list[str]) -> set[str]:
    return {name for name in names if not any(Path(name).match(pattern) for pattern in TOKENIZER_FILES)}


def _classes(model: Any) -> dict[str, type[Any]]:
    """Return the class of each Auto class for the model's family; of an encoder-decoder its own class."""
    kind: type[Any] = type(model)
    found: dict[str, type[Any]] = {"AutoConfig": type(model.config)}
    if model.config.is_encoder_decoder:
        return found | {"AutoModel": kind, "AutoModelForSeq2SeqLM": kind}
    within, family = vars(families), kind.__name__.partition("For")[0].removesuffix("Model")
    heads = {auto.__name__: within.get(family + head) for head, auto in families.HEADS.items()}
    return found | {name: one for name, one in heads.items() if one is not None}


def check(exports: Sequence[Exported]) -> list[Checked]:
    """Load exports in one process without isoscope, and compare their tokens and outputs with those of their models.

    Outputs are compared at tokens: values at padding mean nothing. Raises `RunError` if an export does not load, reads
    other tokens, or if an output differs by more than `ROUNDING`.
    """
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        tasks: list[dict[str, Any]] = []
        for number, one in enumerate(exports):
            texts, out = _texts(one), str(place / f"{number}.safetensors")
            most = positions(one.model)
            task = {"max_length": most, "folder": str(one.folder.resolve()), "loader": one.loader, "code": one.code}
            tasks.append(task | {"texts": texts, "out": out})
        (place / "tasks.json").write_text(json.dumps(tasks), "utf-8")
        _run_alone(place)
        return [compared(one, task["texts"], load_file(task["out"])) for one, task in zip(exports, tasks, strict=True)]


def _run_alone(place: Path) -> None:
    own = {"HF_MODULES_CACHE": str(place / "modules"), "HF_HUB_OFFLINE": "1"}
    command = (sys.executable, "-I", loaded_alone.__file__, str(place / "tasks.json"))
    done = subprocess.run(command, cwd=place, env=os.environ | own, capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise RunError(f"export: nothing is written, because it does not load without isoscope: {last}")


def _texts(one: Exported) -> list[str]:
    """Return a few texts of random tokens of the vocabulary, of unequal length."""
    backend = tokens.load(one.folder).backend
    most = min(positions(one.model), max(_LENGTHS)) - backend.num_special_tokens_to_add(False)
    draw, size = torch.Generator().manual_seed(0), backend.get_vocab_size()
    drawn = [torch.randint(size, (min(length, most),), generator=draw).tolist() for length in _LENGTHS]
    return [backend.decode(ids, skip_special_tokens=True) for ids in drawn]


def compared(one: Exported, texts: Sequence[str], found: Mapping[str, Tensor]) -> Checked:
    """Compare tokens and outputs `found` for `texts` with those of the export's model; raise `RunError` as `check`."""
    loaded = tokens.load(one.folder)
    loaded.backend.enable_truncation(positions(one.model))
    ids = [torch.tensor(encoded.ids) for encoded in loaded.backend.encode_batch(list(texts))]
    inputs = {
        "input_ids": pad_sequence(ids, batch_first=True, padding_value=loaded.pad_id),
        "attention_mask": pad_sequence([torch.ones_like(row) for row in ids], batch_first=True),
    }
    for name, value in inputs.items():
        if not torch.equal(found[name], value):
            raise RunError(f"export: nothing is written: transformers' tokenizer gives other {name} than the run's")
    mask, own = inputs["attention_mask"].bool(), loaded_alone.outputs(one.model, inputs)
    names = tuple(sorted(own.keys() & found.keys()))
    difference, values = 0.0, 0
    for name in names:
        here, there = own[name], found[name]
        if here.shape[:2] == mask.shape and (here.ndim == 3 or name in ("start_logits", "end_logits")):
            here, there = here[mask], there[mask]
        off, most = float((here - there).abs().max()), float(here.abs().max())
        if not off <= ROUNDING * max(1.0, most):
            raise RunError(f"export: nothing is written: without isoscope, {name} differs by {off:.3g}")
        difference, values = max(difference, off), values + here.numel()
    if not {"logits", "start_logits", "last_hidden_state"} & set(names):
        raise RunError("export: nothing is written: both models have no output in common")
    return Checked(difference, names, values)
