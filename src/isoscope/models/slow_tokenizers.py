"""Convert tokenizers that have no tokenizer.json, and compare the ids with those of the original.

transformers converts. The original is the library sentencepiece for a SentencePiece model, the Python class of BERT for
vocab.txt, and otherwise the tokenizer that transformers loads from the folder.
"""

import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, normalizers, pre_tokenizers
from transformers import AutoTokenizer, BertTokenizerLegacy

from isoscope.base.errors import InputError, said
from isoscope.data.hub import TOKENIZER_FILES
from isoscope.data.marian import SINGLE_SPACES, charsmap, sentencepiece_model
from isoscope.models.loading import quiet

TEXTS = (
    "The quick brown fox jumps over the lazy dog.",
    "I don't think it's worth 3.14 % of $1,000 -- or is it?",
    "  Two  spaces,\ta tab, CamelCaseWords and e-mail@example.org (2024/05/17)",
    "Zażółć gęślą jaźń; Übergröße, naïve café, façade.",
    "Ce n'est pas « sûr » : l’œuvre coûte 12 000 €…",
    "Sää on tänään kaunis, eikä öisin sada.",
    "Съешь же ещё этих мягких французских булок.",
    "日本語のテキストと中文文本。",
    "مرحبا بالعالم، هذا نص عربي.",
    "नमस्ते दुनिया, यह हिन्दी है।",
    "№5 ﬁne ½ ａｂｃ x² Å",
    "An emoji 🙂, a flag 🇫🇮 and a rare word: antidisestablishmentarianism",
)
"""What both forms read: several scripts, numbers, spaces, compatibility characters and emoji."""
_OFFSETS = {
    **dict.fromkeys(("XLMRoberta", "MBart", "MBart50", "Nllb", "XGLM"), 1),
    "Camembert": 4,
    "Pegasus": 103,
}
"""Class of tokenizer → what it adds to the ids of its SentencePiece model, as those models were trained."""
Ids = Callable[[str], list[int]]


def convert_tokenizer(source: Path, file: Path) -> str:
    """Write the tokenizer of `source` as `file` (tokenizer.json). Return what its ids were compared with.

    Where transformers' conversion normalises or splits text unlike a SentencePiece model, the model's own rules take
    the place of transformers'. Raises `InputError` if transformers cannot convert it, and names the first text with
    other ids.
    """
    files = {file.name for pattern in TOKENIZER_FILES for file in source.glob(pattern)}
    model = next((name for name in sorted(files) if name.endswith(".model")), None)
    if not (model or "vocab.txt" in files or {"vocab.json", "merges.txt"} <= files):
        raise InputError(f"{source}: no tokenizer: expected *.model, vocab.txt, or vocab.json with merges.txt")
    try:
        with quiet():
            found = AutoTokenizer.from_pretrained(source, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # each class its own
        raise InputError(f"{source}: transformers cannot read its tokenizer: {said(error)}") from None
    backend = getattr(found, "backend_tokenizer", None)
    if not isinstance(backend, Tokenizer):
        raise InputError(f"{source}: {type(found).__name__} has no fast form, so it has no tokenizer.json")
    called, original = _original(source, found, model)
    if (other := _difference(backend, original)) and model:
        _like_sentencepiece(
            backend, sentencepiece_model(source / model), lowercase=bool(_option(found, "do_lower_case"))
        )
        other = _difference(backend, original)
    if other:
        text, ours, theirs = other
        raise InputError(
            f"{source}: the converted tokenizer is not equal to {called}: for {text!r} it gives {ours[:12]}, the "
            f"original {theirs[:12]}; nothing is written"
        )
    backend.save(str(file))
    return called


def _original(source: Path, found: Any, model: str | None) -> tuple[str, Ids]:
    """Return the name of the original, and its ids of a text without special tokens."""
    if model is not None:
        return f"sentencepiece ({model})", _by_sentencepiece(found, source / model)
    if (source / "vocab.txt").is_file() and type(found.backend_tokenizer.model).__name__ == "WordPiece":
        with quiet():
            slow = BertTokenizerLegacy.from_pretrained(source, local_files_only=True)
        return "BERT's tokenizer in Python (vocab.txt)", lambda text: slow.encode(text, add_special_tokens=False)
    # There is no other form: this compares what is written with what transformers reads.
    return f"transformers' {type(found).__name__}", lambda text: list(found.encode(text, add_special_tokens=False))


def _by_sentencepiece(found: Any, model: Path) -> Ids:
    try:
        from sentencepiece import SentencePieceProcessor
    except ImportError:
        raise InputError(
            "a SentencePiece model needs the library sentencepiece: pip install 'isoscope[convert]'"
        ) from None
    try:
        pieces = SentencePieceProcessor(model_file=str(model))
    except Exception as error:
        raise InputError(f"{model}: not a SentencePiece model: {said(error)}") from None
    offset = _OFFSETS.get(type(found).__name__.removesuffix("Tokenizer"), 0)
    unknown = pieces.unk_id()

    def ids(text: str) -> list[int]:
        cleaned = _cleaned(text, found)
        return [found.unk_token_id if one == unknown else one + offset for one in pieces.encode(cleaned)]

    return ids


def _cleaned(text: str, found: Any) -> str:
    """Return what ALBERT's and XLNet's tokenizers pass to SentencePiece: quotes, accents and case by their options."""
    if (kept := _option(found, "keep_accents")) is not None:
        text = text.replace("``", '"').replace("''", '"')
        if not kept:
            text = "".join(one for one in unicodedata.normalize("NFKD", text) if not unicodedata.combining(one))
    return text.lower() if _option(found, "do_lower_case") else text


def _option(found: Any, name: str) -> Any:
    return getattr(found, name, found.init_kwargs.get(name))


def _like_sentencepiece(backend: Tokenizer, proto: Any, *, lowercase: bool) -> None:
    """Let a tokenizer normalise and split text by the rules in a SentencePiece model."""
    rules = proto.normalizer_spec
    spaces = SINGLE_SPACES if rules.remove_extra_whitespaces else []
    backend.normalizer = normalizers.Sequence([normalizers.Lowercase()] * lowercase + charsmap(proto) + spaces)
    begin = "always" if rules.add_dummy_prefix else "never"
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=begin, split=False)


def _difference(backend: Tokenizer, original: Ids) -> tuple[str, list[int], list[int]] | None:
    """Return the first text with other ids, these ids, and the original's; None if there is none."""
    for text in TEXTS:
        ours, theirs = backend.encode(text, add_special_tokens=False).ids, original(text)
        if ours != theirs:
            return text, ours, theirs
    return None
