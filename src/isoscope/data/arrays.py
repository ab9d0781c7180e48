"""Names of the types of arrays."""

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.int64]
Ids = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
Vectors = npt.NDArray[np.float32]
Flags = npt.NDArray[np.bool_]
