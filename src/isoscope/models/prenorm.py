"""Transformer layers with the LayerNorm before each block (pre-norm); weights have BERT's names and shapes.

Source: Xiong et al. 2020 (https://arxiv.org/abs/2002.04745), figure 1b. One more LayerNorm follows the last layer.
"""

from typing import Any

from torch import Tensor, nn
from transformers.models.bert.modeling_bert import BertAttention, BertEncoder, BertLayer


class PreNormLayer(BertLayer):
    """A BertLayer computed as `x + f(LayerNorm(x))` for self-attention, cross-attention and feed-forward block."""

    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        encoder_hidden_states: Tensor | None = None,
        encoder_attention_mask: Tensor | None = None,
        past_key_values: Any = None,
        **kwargs: Any,
    ) -> Tensor:
        """Return the layer's hidden states `[B, L, D]`; arguments as in BertLayer."""
        kwargs["past_key_values"] = past_key_values
        hidden = _attended(self.attention, hidden_states, attention_mask=attention_mask, **kwargs)
        if encoder_hidden_states is not None:
            hidden = _attended(
                self.crossattention,
                hidden,
                encoder_hidden_states=encoder_hidden_states,
                attention_mask=encoder_attention_mask,
                **kwargs,
            )
        block = self.output
        return hidden + block.dropout(block.dense(self.intermediate(block.LayerNorm(hidden))))


def _attended(attention: BertAttention, hidden: Tensor, **inputs: Any) -> Tensor:
    block = attention.output
    return hidden + block.dropout(block.dense(attention.self(block.LayerNorm(hidden), **inputs)[0]))


class PreNormEncoder(BertEncoder):
    """A BertEncoder of `PreNormLayer`, with a LayerNorm after the last layer."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.layer = nn.ModuleList([PreNormLayer(config, layer_idx=index) for index in range(config.num_hidden_layers)])
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(self, hidden_states: Tensor, *args: Any, **kwargs: Any) -> Any:
        """Return BertEncoder's output with its last hidden state normalised."""
        output: Any = super().forward(hidden_states, *args, **kwargs)
        output.last_hidden_state = self.LayerNorm(output.last_hidden_state)
        return output
