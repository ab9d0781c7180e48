"""Compare an exported model, loaded in a process that cannot import isoscope, with the model that it comes from."""

import json
import os
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

from isoscope.base.errors import RunError
from isoscope.data import tokens
from isoscope.models import loaded_alone
from isoscope.models.encoder import positions

_LENGTHS = (3, 24, 11, 7)
"""Tokens of the texts, if the model has so many positions."""
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
