"""Compare the weights and the hidden states of two runs by layer; no model is built."""

from pathlib import Path
from typing import Any

import pandas as pd
import torch
from safetensors import safe_open

from isoscope.base.errors import InputError
from isoscope.data.checkpoints import weight_files, weight_shapes
from isoscope.geometry.similarity import CKA
from isoscope.models.components import place_of
from isoscope.states.trajectory import Trajectory


def weights(one: Path, other: Path) -> pd.DataFrame:
    """Compare the tensors of two checkpoints: a row per name, by layer.

    - name; stack (of an encoder-decoder); layer (−1: outside); place and component: what a person reads.
    - a, b: its shape, None where it is missing.
    - equal: whether all bits are. aa, bb, ab, dd: sums of a², b², a · b and (a − b)²; missing unless both have it.

    Raises `InputError` for a folder without safetensors weights.
    """
    shapes = [weight_shapes(folder) for folder in (one, other)]  # which also says what is wrong with a file
    files = [[safe_open(path, "pt") for path in weight_files(folder)] for folder in (one, other)]
    sides = [{name: file for file in of for name in file.keys()} for of in files]  # noqa: SIM118
    both = {"encoder", "decoder"} <= {name.partition(".")[0] for name in sides[0]}
    rows = list[dict[str, Any]]()
    for name in sides[0] | sides[1]:
        (layer, component), stack = place_of(name), f"{name.partition('.')[0]} " * both
        a, b = (side[name].get_tensor(name) if name in side else None for side in sides)
        places = (
            ("outside the layers", component) if layer is None else (f"layer {layer}", f"layer {layer} {component}")
        )
        sizes = {side: str([*of[name]]) if name in of else None for side, of in zip("ab", shapes, strict=True)}
        about = {"place": stack + places[0], "component": stack + places[1]}
        rows.append({"name": name, "stack": stack, "layer": -1 if layer is None else layer, **about, **sizes})
        if a is not None and b is not None and a.shape == b.shape:
            x, y = (tensor.reshape(-1).to(torch.float64) for tensor in (a, b))
            bits = [tensor.contiguous().reshape(-1).view(torch.uint8) for tensor in (a, b)]
            sums = {"aa": x @ x, "bb": y @ y, "ab": x @ y, "dd": (x - y) @ (x - y)}
            rows[-1] |= {
                "equal": a.dtype == b.dtype and torch.equal(*bits),
                **{key: float(one) for key, one in sums.items()},
            }
    columns = [*rows[0], *(name for name in ("equal", "aa", "bb", "ab", "dd") if name not in rows[0])]
    return pd.DataFrame(rows, columns=columns).sort_values(["stack", "layer", "name"])


def representations(one: Path, other: Path) -> pd.DataFrame:
    """Return the CKA of two runs' hidden states at their chosen snapshots, per kind of vectors and layer of both.

    Columns vectors, layer, cka, n. Raises `InputError` if the states are not of the same sentences.
    """
    runs = Trajectory(one), Trajectory(other)
    if runs[0].facts["sha256"] != runs[1].facts["sha256"]:
        raise InputError("the hidden states of both runs are of different sentences")
    a, b = (run.arrays(run.best) for run in runs)
    places = [(kind, layer) for kind in a.vectors if kind in b.vectors for layer in a.layers(kind)]
    pairs = [(*place, a.layer(*place), b.layer(*place)) for place in places if place[1] in b.layers(place[0])]
    rows = [(kind, layer, CKA().score(x, y), len(x)) for kind, layer, x, y in pairs]
    return pd.DataFrame(rows, columns=["vectors", "layer", "cka", "n"])
