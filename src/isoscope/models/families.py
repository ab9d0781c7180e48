"""The families whose encoders have a word and a position table, each with a fusion as Hugging Face models.

`FAMILIES` maps a model type of transformers to its fusion's configuration. Classes are called as the family's, with
`Fusion` before: `FusionBertForSequenceClassification`. Importing this module registers them with the Auto classes.
Rotary and relative positions have no table to fuse.
"""

from typing import TYPE_CHECKING, Any

from huggingface_hub.dataclasses import strict
from transformers.models.auto.auto_factory import _BaseAutoModelClass
from transformers.models.auto.configuration_auto import CONFIG_MAPPING, AutoConfig
from transformers.models.auto.modeling_auto import (
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
)
from transformers.models.auto.tokenization_auto import TOKENIZER_MAPPING, AutoTokenizer

from isoscope.models.fused import FusedEncoder, FusedHead, FusedPreTrained, FusionSettings, seeing_the_mask
from isoscope.models.generation import FusedGenerationMixin, at_chosen_tokens

TYPES = ("bert", "roberta", "electra", "distilbert", "mpnet", "camembert", "xlm-roberta", "albert")
HEADS: dict[str, type[_BaseAutoModelClass]] = {
    "Model": AutoModel,
    "ForSequenceClassification": AutoModelForSequenceClassification,
    "ForTokenClassification": AutoModelForTokenClassification,
    "ForQuestionAnswering": AutoModelForQuestionAnswering,
    "ForMaskedLM": AutoModelForMaskedLM,
    "ForCausalLM": AutoModelForCausalLM,
}
"""End of a class's name → the Auto class that loads it."""
CLASSIFIER, MASKED, CAUSAL = "ForSequenceClassification", "ForMaskedLM", "ForCausalLM"


def _configuration(plain: type[Any]) -> Any:
    """Return a family's configuration with the fields of a fusion."""
    own = {
        "model_type": f"fusion-{plain.model_type}",
        "__module__": __name__,
        "__doc__": f"The configuration {plain.__name__} plus the fusion's (`FusionSettings`).",
    }
    return strict(type(f"Fusion{plain.__name__}", (FusionSettings, plain), own))


def _model(plain: type[Any], name: str, config: type[Any], encoder: tuple[type[Any], type[Any]] | None) -> type[Any]:
    """Return a family's class with a fusion: its encoder, or a model with a head on its `encoder`, plain and fused."""
    own: dict[str, Any] = {"config_class": config, "__module__": __name__, "__qualname__": name}
    own["__doc__"] = f"transformers' {plain.__name__} with a choice of fusion."
    if encoder is None:
        split = ["FusedTables", "PreNormLayer", *(plain._no_split_modules or ())]
        own |= {"forward": seeing_the_mask(plain), "_no_split_modules": split}
        return type(name, (FusedEncoder, FusedPreTrained, plain), own)
    writes = (FusedGenerationMixin,) if name.endswith("ForCausalLM") else ()
    made = type(name, (*writes, FusedHead, FusedPreTrained, plain), own | {"encoder": encoder})
    return at_chosen_tokens(made) if name.endswith("LM") else made


def _family(plain: type[Any]) -> dict[str, type[Any]]:
    """Return a family's fusion's configuration, encoder and heads by name, given its own configuration."""
    stem = f"Fusion{plain.__name__.removesuffix('Config')}"
    config = _configuration(plain)
    mappings: dict[str, Any] = {end: auto._model_mapping for end, auto in HEADS.items()}
    classes = {end: known[plain] for end, known in mappings.items() if plain in known}
    encoder = _model(classes["Model"], f"{stem}Model", config, None)
    found = {f"{stem}Config": config, f"{stem}Model": encoder}
    for end, one in classes.items():
        if end != "Model":
            found[f"{stem}{end}"] = _model(one, f"{stem}{end}", config, (classes["Model"], encoder))
    return found


_CLASSES = {name: _family(CONFIG_MAPPING[name]) for name in TYPES}
FAMILIES = {name: next(iter(classes.values())) for name, classes in _CLASSES.items()}
for _classes in _CLASSES.values():
    globals().update(_classes)


def of(kind: str, end: str) -> Any:
    """Return the class of a family, by the model type of transformers, with this end of its name; None without one."""
    classes = _CLASSES[kind]
    return classes.get(FAMILIES[kind].__name__.removesuffix("Config") + end)


if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


for _name, _config in FAMILIES.items():
    AutoConfig.register(_config.model_type, _config)
    AutoTokenizer.register(_config, tokenizer_class=TOKENIZER_MAPPING[CONFIG_MAPPING[_name]])
    for _end, _auto in HEADS.items():
        if (_kind := of(_name, _end)) is not None:
            _auto.register(_config, _kind)
