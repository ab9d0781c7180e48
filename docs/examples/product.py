"""A fusion from a plugin: word times position, elementwise, scaled per dimension, plus the token type."""

from pydantic import PositiveFloat

from isoscope.plugins import fusion


@fusion("product")
def product(hidden_size: int, scale: PositiveFloat):
    import torch

    class Product(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.full((hidden_size,), scale))

        def forward(self, word, position, token_type, mask):
            return self.scale * word * position + token_type

    return Product()
