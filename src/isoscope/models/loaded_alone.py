"""Load exported models where isoscope cannot be imported, and write what they compute; run as a script.

    python -I loaded_alone.py TASK.json

It imports nothing of isoscope. The task is a list of `{"folder", "loader", "code", "texts", "max_length", "out"}`.
"""

import json
import sys
from pathlib import Path
from typing import Any


def outputs(model: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return every tensor that a model computes for `inputs`, by name; of an encoder-decoder also the decoder's.

    A decoder reads the encoder's texts. `inputs`: `input_ids` and `attention_mask`, `[B, L]`.
    """
    import torch

    given = dict(inputs)
    if model.config.is_encoder_decoder:
        given |= {f"decoder_{name}": value for name, value in inputs.items()}
    with torch.inference_mode():
        found = model.eval()(**given, use_cache=False) if given.keys() > inputs.keys() else model.eval()(**given)
    return {name: value.contiguous() for name, value in found.items() if isinstance(value, torch.Tensor)}


def main(task: Path) -> None:
    """Load each model of a task with its tokenizer, and write the ids of its texts and its outputs (safetensors)."""
    sys.modules["isoscope"] = None  # type: ignore[assignment]  # an import of it is an ImportError from here on
    import torch
    import transformers
    from safetensors.torch import save_file

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    for one in json.loads(task.read_text("utf-8")):
        code = {"trust_remote_code": True} if one["code"] else {}
        model = getattr(transformers, one["loader"]).from_pretrained(one["folder"], dtype=torch.float32, **code)
        tokenizer = transformers.AutoTokenizer.from_pretrained(one["folder"], **code)
        if tokenizer.pad_token is None:  # of a decoder, padded by the token that ends a text
            tokenizer.pad_token = tokenizer.eos_token
        shape = {"padding": True, "padding_side": "right", "truncation": True, "max_length": one["max_length"]}
        read = tokenizer(one["texts"], return_tensors="pt", **shape)
        inputs = {name: read[name] for name in ("input_ids", "attention_mask")}
        save_file(outputs(model, inputs) | inputs, one["out"])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
