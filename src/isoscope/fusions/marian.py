"""The embedding block of Marian's translation models: scaled words and positions, and nothing else."""

import math
from typing import Any

from isoscope.fusions.tables import TokenType
from isoscope.plugins import fusion


@fusion("marian")
def marian(hidden_size: int, init_std: float, token_type: TokenType) -> Any:
    """Scaled words plus positions, without a LayerNorm, as in Marian's translation models, which ignore token types.

    `√D · w + p / (√2 · σ)` with the initial standard deviation σ of the tables, so that sines and cosines
    (`model.encoder.positions: sinusoidal`) have the amplitude 1 that they have in Marian. No parameters. Source:
    transformers' MarianModel with `scale_embedding`; Junczys-Dowmunt et al. 2018, https://aclanthology.org/P18-4020.
    """
    from isoscope.fusions.sources import Sum

    factors = math.sqrt(hidden_size), 1 / (math.sqrt(2) * init_std)
    return Sum(*factors, token_type=token_type == "add", layer_norm=False)
