"""Turn a Hugging Face folder into a folder that isoscope reads: safetensors weights and tokenizer.json."""

import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from safetensors import safe_open

from isoscope.base.errors import InputError
from isoscope.data import tokens
from isoscope.data.checkpoints import INDEX, MODEL_CONFIG, WEIGHTS, loadable_config, weight_shapes
from isoscope.data.files import read_mapping
from isoscope.data.hub import CHECKPOINT_FILES, PART, SENTENCE_FILES
from isoscope.data.marian import SOURCE
from isoscope.data.pickled_weights import convert_weights
from isoscope.models.sentence_head import sentence_modules
from isoscope.models.slow_tokenizers import convert_tokenizer

PICKLED, PICKLED_INDEX, TOKENIZER = "pytorch_model.bin", "pytorch_model.bin.index.json", "tokenizer.json"
_OF_SEVERAL = re.compile(r"pytorch_model-\d{5}-of-(?P<count>\d{5})\.bin")
_KEPT = (*CHECKPOINT_FILES, *SENTENCE_FILES, "generation_config.json")
"""Files that are copied, with those of modules of sentence-transformers."""


def convert(source: Path, folder: Path) -> list[str]:
    """Write the checkpoint in `source` into the empty `folder`; return what was converted, a line each.

    Weights that are pickles become safetensors (`data.pickled_weights`); a tokenizer without tokenizer.json gets it
    (`slow_tokenizers`). Other files are copied, and `source` stays as it is. Raises `InputError` if there is nothing to
    convert, and if a part cannot be converted.
    """
    loadable_config(source)
    has_weights = (source / WEIGHTS).is_file() or (source / INDEX).is_file()
    # Marian's tokenizer is read as it is.
    has_tokenizer = (source / TOKENIZER).is_file() or (source / SOURCE).is_file()
    modules = {one.folder for one in sentence_modules(source)} - {source}
    pickled = sorted(one for one in modules if (one / PICKLED).is_file() and not (one / WEIGHTS).is_file())
    if has_weights and has_tokenizer and not pickled:
        raise InputError(f"{source}: isoscope reads its weights and its tokenizer as they are; nothing to convert")
    for file in sorted({file for pattern in _KEPT for file in source.glob(pattern)}):
        target = folder / file.relative_to(source)
        target.parent.mkdir(exist_ok=True)
        shutil.copyfile(file, target)
    told = [] if has_weights else [_weights(_pickles(source), folder)]
    told += [_weights([one / PICKLED], folder / one.name) for one in pickled]
    weight_shapes(folder)  # are they readable?
    if not has_tokenizer:
        told.append(f"{TOKENIZER}: equal ids to {convert_tokenizer(source, folder / TOKENIZER)}")
    tokens.load(folder, padded=False)
    return told


def _pickles(source: Path) -> list[Path]:
    """Return the files with a checkpoint's weights: those of the index, or all of the usual numbered names."""
    if (source / PICKLED).is_file():
        return [source / PICKLED]
    if (source / PICKLED_INDEX).is_file():
        names = read_mapping(source / PICKLED_INDEX).get("weight_map")
        listed = sorted({*map(str, names.values())}) if isinstance(names, dict) else []
        if not listed or not all(PART.fullmatch(name) and (source / name).is_file() for name in listed):
            raise InputError(f"{source / PICKLED_INDEX}: expected a weight_map to files in this folder; put them there")
        return [source / name for name in listed]
    there = sorted(file.name for file in source.glob("*.bin"))
    numbered = [match for name in there if (match := _OF_SEVERAL.fullmatch(name))]
    count = int(numbered[0]["count"]) if numbered else 0
    parts = [f"pytorch_model-{number:05}-of-{count:05}.bin" for number in range(1, count + 1)]
    if not parts or [match[0] for match in numbered] != parts:
        raise InputError(
            f"{source}: no whole weights: expected {WEIGHTS} or {PICKLED}, or files with an index, or all of "
            f"pytorch_model-00001-of-N.bin …; there is {', '.join(there) or 'no file *.bin'}"
        )
    return [source / name for name in parts]


def _weights(files: Sequence[Path], folder: Path) -> str:
    """Write the tensors of each pickled file into a safetensors file, and of several files an index; say so."""
    place = folder / "converting"
    place.mkdir(parents=True)  # a module may be weights alone
    made = convert_weights(files, place)
    count = len(made)
    names = [WEIGHTS] if count == 1 else [f"model-{n + 1:05}-of-{count:05}.safetensors" for n in range(count)]
    tensors: dict[str, str] = {}
    for file, name in zip(made, names, strict=True):
        if file.is_symlink():
            raise InputError(f"{files[0]}: its conversion left a link in place of weights; nothing is written")
        file.chmod((folder / MODEL_CONFIG).stat().st_mode)  # safetensors lets nobody else read what it writes
        target = file.rename(folder / name)
        with safe_open(target, "numpy") as opened:
            if twice := sorted({*opened.keys()} & {*tensors}):
                raise InputError(f"{files[0].parent}: two files have the tensor {twice[0]}; leave one of them there")
            tensors |= dict.fromkeys(opened.keys(), name)
    shutil.rmtree(place)
    if count > 1:
        size = sum((folder / name).stat().st_size for name in names)
        index = {"metadata": {"total_size": size}, "weight_map": dict(sorted(tensors.items()))}
        (folder / INDEX).write_text(json.dumps(index, indent=2) + "\n", "utf-8")
    told = f"{files[0].name} and {count - 1} more" if count > 1 else files[0].name
    return f"weights: {len(tensors)} tensors of {told}, now safetensors"
