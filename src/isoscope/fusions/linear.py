"""A weighted sum of the tables: the control for a convolution with as many parameters."""

from typing import Any

from isoscope.base.errors import InputError
from isoscope.fusions.tables import Activation, Count, Normalisation, Tables, TokenType, check_tables
from isoscope.plugins import fusion


@fusion("linear", check=check_tables)
def linear(
    hidden_size: int,
    sources: Tables,
    token_type: TokenType,
    normalisation: Normalisation,
    blocks: Count,
    activation: Activation,
) -> Any:
    """A weighted sum of the sources, with a weight per source and block of hidden dimensions.

    - `blocks`: Blocks of neighbouring hidden dimensions; parameters: sources · blocks.
    - `activation`: Activation after the sum.
    """
    import torch
    from torch import Tensor, nn

    from isoscope.fusions.sources import ACTIVATIONS, Sources

    if blocks > hidden_size:
        raise InputError(f"model.fusion.blocks: {blocks}, but the encoder has {hidden_size} hidden dimensions")
    activate = ACTIVATIONS[activation]

    class Linear(Sources):
        """`act(Σ_c a_c[⌊j · blocks / D⌋] · source_c[j])`; it mixes neither tokens nor axes.

        Weights are drawn like a kernel's: uniform in ±1/√(sources · blocks). `token_type="add"` then adds t.
        """

        def __init__(self) -> None:
            super().__init__(sources, token_type, normalisation)
            weights = torch.empty(len(self.sources), blocks)
            bound = weights.numel() ** -0.5
            self.weight = nn.Parameter(weights.uniform_(-bound, bound))

        def forward(self, word: Tensor, position: Tensor, token_type: Tensor, mask: Tensor | None = None) -> Tensor:
            sources = [self.normalised(source) for source in self.chosen(word, position, token_type).values()]
            of = torch.arange(word.shape[-1], device=word.device) * blocks // word.shape[-1]
            weights = self.weight[:, of]
            fused = sum(
                (row * source for row, source in zip(weights[1:], sources[1:], strict=True)), weights[0] * sources[0]
            )
            fused = fused if activate is None else activate(fused)
            return fused + token_type if self.adds_token_type else fused

    return Linear()
