"""Convert weights that are pickles to safetensors, in a child process that the kernel confines.

The one place of the package that reads a pickle: `isoscope convert` asks for it, and nothing else does. Two things
protect the user. `torch.load(weights_only=True)` runs no code of the file. If that failed, the process has no network,
starts no other program, and writes only in the folder that it is given (`isoscope.base.confined`).

    python -P -m isoscope.data.pickled_weights FOLDER FILE…
"""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from isoscope.base.confined import confine
from isoscope.base.errors import InputError

_ASKED = re.compile(r"unsupported (?:global:? |class )+(\S+)", re.IGNORECASE)
_OTHER = "Weights only load failed"
"""How torch says what a file asks for beside tensors, and that it asks for something."""


def convert_weights(files: Sequence[Path], folder: Path) -> list[Path]:
    """Write each pickled state dict as a safetensors file of the same name into the empty `folder`.

    Tensors that share their memory, as tied weights do, are written each in full. Raises `InputError` for files that
    hold something else than tensors by name, and where the kernel cannot confine the process.
    """
    command = (sys.executable, "-P", "-m", __name__, *(str(one.resolve()) for one in (folder, *files)))
    # Libraries look for a folder of their own when they are imported.
    own = {"TMPDIR": ".", "HOME": ".", "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        command, cwd=folder, env=os.environ | own, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    if done.returncode == 1 and (said := done.stderr.strip()):
        raise InputError(f"{said.splitlines()[-1]}; nothing is written")
    if done.returncode:
        ended = f"the process that converts it ended with {done.returncode}; is there enough memory?"
        raise InputError(f"{files[0]}: {ended} Nothing is written")
    return [folder / f"{file.stem}.safetensors" for file in files]


def _main(folder: Path, files: Sequence[Path]) -> None:
    try:
        confine(folder)
    except OSError as error:
        sys.exit(f"{files[0]}: weights that are a pickle are read in a confined process only, and {error}")
    import torch
    from safetensors.torch import save_file

    for file in files:
        try:
            found = torch.load(file, map_location="cpu", weights_only=True)  # noqa: TID251 - see above
            save_file(_tensors(found), folder / f"{file.stem}.safetensors", {"format": "pt"})
        except Exception as error:  # torch, zipfile, pickle and safetensors raise many kinds
            said = " ".join(str(error).split())
            if said.startswith(_OTHER):
                asked = _ASKED.search(said)
                said = f"it asks for {asked[1]}" if asked else "it holds other objects than tensors"
            sys.exit(f"{file}: not plain weights ({said[:150] or type(error).__name__}); no code of it has run")


def _tensors(found: Any) -> dict[str, Any]:
    """Return the tensors of a state dict, each in memory of its own, and empty it. Raises `ValueError` for others."""
    import torch

    if not isinstance(found, dict) or not found:
        raise ValueError(f"it holds a {type(found).__name__}, no tensors by name")
    if other := [name for name, value in found.items() if not isinstance(value, torch.Tensor)]:
        raise ValueError(f"{other[0]} is a {type(found[other[0]]).__name__}, no tensor")
    return {str(name): found.pop(name).detach().clone().contiguous() for name in [*found]}


if __name__ == "__main__":
    _main(Path(sys.argv[1]), [*map(Path, sys.argv[2:])])
