"""A model as a folder that transformers loads without isoscope."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

from isoscope.base.errors import InputError
from isoscope.base.registry import FUSIONS
from isoscope.data import tokens
from isoscope.data.checkpoints import CONFIG, TOKENIZER_CONFIG
from isoscope.data.files import read_mapping
from isoscope.data.hub import TOKENIZER_FILES
from isoscope.models import bert, hybrid, roberta, translation
from isoscope.models.encoder import checkpoint_config
from isoscope.models.export_check import Exported
from isoscope.models.export_check import check as check
from isoscope.models.loading import pretrained, quiet
from isoscope.models.plain import as_plain, plain_reasons
from isoscope.models.remote_code import write_code

_HEADS = (
    "", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering", "ForMaskedLM", "ForCausalLM",
)  # fmt: skip


def read_model(folder: Path) -> Any:
    """Load a checkpoint's model with its head, in evaluation mode; raise `InputError` if it is none of isoscope."""
    _check_fusion(folder)
    config = checkpoint_config(folder)
    name, *_ = config.architectures or [""]
    found = [vars(module)[name] for module in (bert, roberta, translation, hybrid) if name in vars(module)]
    if not found or config.model_type in ("bert", "roberta", "encoder-decoder"):
        what = name or f"model type {config.model_type!r}"
        raise InputError(f"checkpoint {folder}: {what} is no architecture of isoscope; it needs no export")
    return pretrained(found[0], folder, config).eval()


def _check_fusion(folder: Path) -> None:
    """Raise `InputError` if a fusion is from a plugin."""
    settings = read_mapping(folder / CONFIG) if (folder / CONFIG).is_file() else {}
    for part in (settings, settings.get("encoder"), settings.get("decoder")):
        fusion = part.get("fusion") if isinstance(part, dict) else None
        kind = fusion.get("kind") if isinstance(fusion, dict) else "additive"
        if kind not in FUSIONS.modules:
            raise InputError(
                f"checkpoint {folder}: the fusion {kind!r} is from a plugin, and only built-in fusions are exported "
                f"({', '.join(FUSIONS.modules)}); give the plugin's file away with the checkpoint"
            )


def write(model: Any, source: Path, folder: Path, *, loader: str, form: str | None) -> tuple[Exported, list[str]]:
    """Write weights, configuration, tokenizer and, in the form code, Python files to an existing folder.

    `loader`: the Auto class that loads it. `form` plain: transformers' own class; code: with isoscope's Python files;
    None: plain where this is exact. Returns the export, and why it has its form. Raises `InputError` if `source` has no
    tokenizer, or if `form` is impossible.
    """
    plain, reasons = None, ["asked for with --code"]
    if form != "code":
        try:
            reasons = plain_reasons(model)
            plain = as_plain(model)
        except InputError as error:
            if form == "plain":
                raise InputError(f"--plain: {error}; use --code, or neither option") from None
            reasons = [str(error)]
    with quiet():
        (plain or model).save_pretrained(folder)
    if plain is None:
        settings = read_mapping(folder / CONFIG) | {"auto_map": write_code(type(model), _classes(model), folder)}
        (folder / CONFIG).write_text(json.dumps(settings, indent=2, sort_keys=True) + "\n", "utf-8")
    for file in folder.glob("*.safetensors"):
        file.chmod((folder / CONFIG).stat().st_mode)  # safetensors lets nobody else read what it writes
    _write_tokenizer(source, folder, model.config.model_type)
    return Exported(folder, model, loader, code=plain is None), reasons


def _write_tokenizer(source: Path, folder: Path, model_type: str) -> None:
    """Copy the tokenizer's files, and name its class, which transformers cannot tell from our model types.

    Raises `InputError` if there is none.
    """
    tokens.load(source)
    shutil.copytree(source, folder, ignore=_other_than_tokenizer, dirs_exist_ok=True)
    by_word = (source / "vocab.txt").is_file() or "roberta" not in model_type
    file = folder / TOKENIZER_CONFIG
    options = {"tokenizer_class": "BertTokenizer" if by_word else "RobertaTokenizer"}
    options |= read_mapping(file) if file.is_file() else {}
    file.write_text(json.dumps(options, indent=2, sort_keys=True, ensure_ascii=False) + "\n", "utf-8")


def _other_than_tokenizer(_: str, names: list[str]) -> set[str]:
    return {name for name in names if not any(Path(name).match(pattern) for pattern in TOKENIZER_FILES)}


def _classes(model: Any) -> dict[str, type[Any]]:
    """Return the class of each Auto class for the model's family; of an encoder-decoder its own class."""
    kind: type[Any] = type(model)
    found: dict[str, type[Any]] = {"AutoConfig": type(model.config)}
    if model.config.is_encoder_decoder:
        return found | {"AutoModel": kind, "AutoModelForSeq2SeqLM": kind}
    within, family = vars(sys.modules[kind.__module__]), kind.__name__.partition("For")[0].removesuffix("Model")
    return found | {f"AutoModel{head}": within[f"{family}{head or 'Model'}"] for head in _HEADS}
