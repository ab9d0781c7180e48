"""A tiny random model of each family of encoders and decoders, as a published folder with its tokenizer."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, T5ForSequenceClassification

from training_runs import WORDS

VOCABULARY = [*"abcdefghijklmnopqrstuvwxyz", *WORDS]
BERT = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24}
SIZED = BERT | {"max_position_embeddings": 24}
LLAMA = SIZED | {"num_key_value_heads": 2}
COUNTED = SIZED | {"max_position_embeddings": 26}
"""Of families whose positions begin after the padding's row."""

FAMILIES: dict[str, tuple[str, dict[str, Any], str]] = {
    "bert": ("Bert", SIZED, "[CLS]"),
    "roberta": ("Roberta", COUNTED | {"type_vocab_size": 1}, "<s>"),
    "distilbert": (
        "DistilBert",
        {"dim": 16, "n_layers": 2, "n_heads": 4, "hidden_dim": 24, "max_position_embeddings": 24},
        "[CLS]",
    ),
    "electra": ("Electra", SIZED | {"embedding_size": 8}, "[CLS]"),
    "albert": ("Albert", SIZED | {"embedding_size": 8}, "[CLS]"),
    "deberta-v2": (
        "DebertaV2",
        SIZED | {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "type_vocab_size": 0},
        "[CLS]",
    ),
    "modernbert": ("ModernBert", SIZED, "[CLS]"),
    "mpnet": ("MPNet", COUNTED, "<s>"),
    "camembert": ("Camembert", COUNTED | {"type_vocab_size": 1}, "<s>"),
    "xlm-roberta": ("XLMRoberta", COUNTED | {"type_vocab_size": 1}, "<s>"),
    "gpt2": ("GPT2", {"n_embd": 16, "n_layer": 2, "n_head": 4, "n_inner": 24, "n_positions": 24}, "<|endoftext|>"),
    "llama": ("Llama", LLAMA, "bos"),
    "qwen2": ("Qwen2", LLAMA, "<|endoftext|>"),
    "t5": (
        "T5",
        {"d_model": 16, "num_layers": 2, "num_heads": 4, "d_ff": 24, "d_kv": 4, "num_decoder_layers": 2},
        "</s>",
    ),
}
"""Model type → transformers' name of the family, sizes, and what frames a text: the first special token, or …

`bos`: only a token before it; `</s>`: only one after it; `<|endoftext|>`: none, and no padding token.
"""
FUSED = ("bert", "roberta", "electra", "distilbert", "mpnet", "camembert", "xlm-roberta", "albert")
DECODERS = ("gpt2", "llama", "qwen2")


def tokenizer(frame: str, folder: Path) -> Tokenizer:
    """Write a tokenizer of words or bytes whose special tokens are those of a family, and return it."""
    special = {
        "[CLS]": ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
        "<s>": ["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
        "bos": ["<unk>", "<s>", "</s>"],
        "</s>": ["<pad>", "</s>", "<unk>"],
        "<|endoftext|>": ["<|endoftext|>", "<unk>"],
    }[frame]
    unknown = next(one for one in special if "unk" in one.lower())
    if frame == "<|endoftext|>":  # bytes, as those of a decoder are
        pieces = {
            piece: number for number, piece in enumerate([*special, *sorted(pre_tokenizers.ByteLevel.alphabet())])
        }
        made = Tokenizer(models.BPE(pieces, []))
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        made.decoder = decoders.ByteLevel()
    else:
        made = Tokenizer(
            models.WordLevel({piece: place for place, piece in enumerate([*special, *VOCABULARY])}, unknown)
        )
        made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.add_special_tokens(special)
    single = {"[CLS]": "[CLS] $A [SEP]", "<s>": "<s> $A </s>", "bos": "<s> $A", "</s>": "$A </s>"}.get(frame)
    if single is not None:
        marks = [(one, made.token_to_id(one)) for one in special]
        made.post_processor = processors.TemplateProcessing(single=single, special_tokens=marks)
    roles = {
        "pad_token": ("[PAD]", "<pad>"),
        "eos_token": ("</s>", "<|endoftext|>"),
        "mask_token": ("[MASK]", "<mask>"),
    }
    options = {role: next((one for one in names if one in special), None) for role, names in roles.items()}
    options |= {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": unknown}
    folder.mkdir(parents=True, exist_ok=True)
    made.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(options), "utf-8")
    return made


def published(family: str, folder: Path, seed: int = 0) -> Path:
    """Write a tiny model of the family as it is published, with the head of its pre-training, and return `folder`."""
    name, sizes, frame = FAMILIES[family]
    own = tokenizer(frame, folder)
    known = {role: own.token_to_id(token) for role, token in (("pad_token_id", "[PAD]"), ("eos_token_id", "</s>"))}
    if frame == "<s>":
        known["pad_token_id"] = own.token_to_id("<pad>")
    if family == "t5":
        known |= {"pad_token_id": 0, "decoder_start_token_id": 0}
    kept = {role: number for role, number in known.items() if number is not None}
    config = getattr(transformers, f"{name}Config")(
        vocab_size=own.get_vocab_size(), initializer_range=0.3, **sizes | kept
    )
    kinds: dict[str, Callable[[Any], Any]] = {"t5": T5ForSequenceClassification}
    made = AutoModelForCausalLM if family in DECODERS else AutoModelForMaskedLM
    torch.manual_seed(seed)
    kinds.get(family, made.from_config)(config).save_pretrained(folder)
    return folder
