"""BERT's tokenizer: its special tokens, its way to find words, and vocab.txt with the options beside it."""

import re
from collections.abc import Container
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from isoscope.base.errors import InputError
from isoscope.data.checkpoints import TOKENIZER_CONFIG
from isoscope.data.files import read_mapping

SPECIAL = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}
ADDED, ROLES = "added_tokens.json", "special_tokens_map.json"
_BY_WORDPIECE = re.compile(
    r"(Bert|DistilBert|Electra|MobileBert|ConvBert|Funnel|LayoutLM|LayoutLMv2|Lxmert|MarkupLM|RetriBert|SqueezeBert|"
    r"DPR(QuestionEncoder|ContextEncoder|Reader)|Tapas|PreTrained)Tokenizer(Fast)?"
)
"""Classes of transformers that read vocab.txt as BERT does: words at spaces and punctuation, then WordPiece."""
_OTHER_WORDS = (
    "word_tokenizer_type", "subword_tokenizer_type", "mecab_kwargs", "sudachi_kwargs", "jumanpp_kwargs", "never_split",
)  # fmt: skip
"""Options that make a tokenizer find words in another way."""
_FLAGS = {"lstrip", "rstrip", "single_word", "normalized", "special"}
"""How a token is found that is read as a whole."""


def bert(vocabulary: dict[str, int], normalizer: normalizers.BertNormalizer) -> Tokenizer:
    """Return a BERT tokenizer with `vocabulary`: BERT's word splitting, and [CLS] A [SEP] B [SEP]."""
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token=SPECIAL["unk_token"]))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    return with_frame(tokenizer)


def with_frame(tokenizer: Tokenizer) -> Tokenizer:
    """Return `tokenizer` with BERT's special tokens, which its vocabulary must have: [CLS] A [SEP] B [SEP]."""
    tokenizer.add_special_tokens(list(SPECIAL.values()))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in ("[CLS]", "[SEP]")],
    )
    return tokenizer


def from_vocabulary(folder: Path) -> Tokenizer:
    """Return the tokenizer of a vocab.txt, with the options of tokenizer_config.json.

    Raises `InputError` for a vocabulary without BERT's special tokens, and for a tokenizer with words of its own.
    """
    options = options_of(folder)
    _check_words(folder, options)
    if not isinstance(stripping := options.get("strip_accents"), bool | None):
        raise InputError(
            f"{folder / TOKENIZER_CONFIG}: strip_accents: expected true, false or null, got {stripping!r:.40}"
        )
    try:
        lines = (folder / "vocab.txt").read_text(encoding="utf-8").rstrip("\n").split("\n")
    except UnicodeDecodeError as error:
        raise InputError(f"{folder / 'vocab.txt'}: not UTF-8 at byte {error.start}") from None
    vocabulary = {token: number for number, token in enumerate(lines)}
    added = _added(folder, options, vocabulary)
    if missing := [token for token in SPECIAL.values() if token not in vocabulary]:
        raise InputError(f"{folder / 'vocab.txt'}: not a BERT vocabulary, it lacks {', '.join(missing)}")
    normalizer = normalizers.BertNormalizer(
        lowercase=bool(options.get("do_lower_case", True)),
        handle_chinese_chars=bool(options.get("tokenize_chinese_chars", True)),
        strip_accents=stripping,
    )
    tokenizer = bert(vocabulary, normalizer)
    for token in added:
        (tokenizer.add_special_tokens if token.special else tokenizer.add_tokens)([token])
    return tokenizer


def _check_words(folder: Path, options: dict[str, Any]) -> None:
    """Raise `InputError` if the tokenizer of a vocab.txt finds words in another way than BERT's."""
    model = read_mapping(folder / "config.json") if (folder / "config.json").is_file() else {}
    named = options.get("tokenizer_class") or model.get("tokenizer_class")
    asked = [f"{key} {options[key]!r:.40}" for key in _OTHER_WORDS if options.get(key)]
    asked += ["do_basic_tokenize False"] if options.get("do_basic_tokenize") is False else []
    if named is not None and not (isinstance(named, str) and _BY_WORDPIECE.fullmatch(named)):
        asked.append(f"the class {named!r:.60}")
    if asked:
        raise InputError(
            f"{folder}: its tokenizer finds words in its own way ({', '.join(asked)}), which vocab.txt does not hold; "
            f"give a checkpoint with tokenizer.json, or write it by: isoscope convert {folder} OUT"
        )


def _added(folder: Path, options: dict[str, Any], vocabulary: Container[str]) -> list[AddedToken]:
    """Return the tokens that a tokenizer reads as a whole beside BERT's special tokens, with how it finds them.

    Raises `InputError` if vocab.txt lacks one, and for special tokens of other names in the place of BERT's.
    """
    added, roles = (read_mapping(folder / name) if (folder / name).is_file() else {} for name in (ADDED, ROLES))
    roles |= options
    several = [roles.get(f"{kind}_special_tokens") or () for kind in ("additional", "extra")]
    several += [options.get("added_tokens_decoder") or ()]
    found = [*added, *(one for held in several for one in (held.values() if isinstance(held, dict) else held))]
    own_roles = {_content(role) for role in map(roles.get, SPECIAL)} - {*SPECIAL.values(), None}
    flags = {
        _content(one): {name: bool(one[name]) for name in _FLAGS & one.keys()} for one in found if isinstance(one, dict)
    }
    named = {*map(_content, found)} - {*SPECIAL.values(), None}
    if own := sorted(map(str, {one for one in named if one not in vocabulary} | own_roles)):
        raise InputError(
            f"{folder}: its tokenizer has tokens of its own ({', '.join(own)[:60]}), which vocab.txt does not hold; "
            f"give a checkpoint with tokenizer.json, or write it by: isoscope convert {folder} OUT"
        )
    return [AddedToken(one, **{"special": True, "normalized": False} | flags.get(one, {})) for one in sorted(named)]


def _content(token: Any) -> Any:
    return token.get("content") if isinstance(token, dict) else token


def options_of(folder: Path) -> dict[str, Any]:
    """Return the options in a folder's tokenizer_config.json; none without this file."""
    path = folder / TOKENIZER_CONFIG
    return read_mapping(path) if path.is_file() else {}
