"""NumPy arrays and torch tensors by one code: distances, nearest places, and the ways between host and device.

A function that takes both computes where its array is. On a NumPy array it has the bits of NumPy and SciPy.
"""

from typing import Any, TypeAlias

import numpy as np
from array_api_compat import array_namespace, is_numpy_array, is_torch_array
from numpy.typing import NDArray
from scipy.spatial.distance import cdist, pdist

Array: TypeAlias = Any
"""A NumPy array, or a torch tensor on any device; float64 where a measure computes."""


def namespace(array: Array) -> Any:
    """Return the functions of the array standard for a NumPy array or a torch tensor."""
    return array_namespace(array)


def placed(array: NDArray[Any], device: str) -> Array:
    """Return an array for the measures of this device: the same array for `cpu`, else a tensor on it."""
    if device == "cpu":
        return array
    import torch  # takes seconds

    return torch.from_numpy(np.ascontiguousarray(array)).to(device)


def beside(array: Any, other: Array) -> Array:
    """Return an array of the host as what `other` is, on its device."""
    return namespace(other).asarray(on_host(array), device=other.device)


def on_host(array: Any) -> NDArray[Any]:
    """Return a tensor, an array or a list as a NumPy array; of bfloat16, as float32."""
    if not is_torch_array(array):
        return np.asarray(array)
    tensor = array.detach().cpu()
    return (tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy()  # NumPy has no bf16


def distances(one: Array, other: Array) -> Array:
    """Return the Euclidean distances `[m, n]` of points, by differences: precise in a cone far from the origin."""
    if is_numpy_array(one):
        return cdist(one, other)
    import torch

    return torch.cdist(one, other, compute_mode="donot_use_mm_for_euclid_dist")


def pairwise(points: Array, distance: str) -> Array:
    """Return the distances between all pairs of points, `[n(n − 1)/2]`: `cosine`, `euclidean` or `correlation`.

    NaN for the cosine of a point that is 0.
    """
    if is_numpy_array(points):
        return pdist(points, distance)
    upper = upper_triangle(points)
    if distance == "euclidean":
        return distances(points, points)[upper]
    rows = points - points.mean(1, keepdim=True) if distance == "correlation" else points
    unit = rows / (rows**2).sum(1, keepdim=True) ** 0.5
    return 1 - (unit @ unit.T)[upper]


def upper_triangle(points: Array) -> Array:
    """Return which places of a matrix `[n, n]` are those of pairs of points `[n, …]`, row by row."""
    xp = namespace(points)
    ones = xp.ones((len(points), len(points)), dtype=xp.bool, device=points.device)
    return xp.triu(ones, k=1)


def least_places(values: Array, k: int) -> Array:
    """Return the places of the k smallest values of each row, in no order `[…, k]`."""
    if is_numpy_array(values):
        return np.argpartition(values, k - 1, axis=-1)[..., :k]
    return values.topk(k, largest=False).indices
