"""Every common model test of transformers that passes for BERT and RoBERTa passes for our classes."""

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import transformers

import transformers_suite
from fusions import FUSIONS, PAD, WIDTH, batch, config
from isoscope import models
from transformers_suite import Outcome

TASKS = {
    "Model": "",
    "ForSequenceClassification": "FOR_SEQUENCE_CLASSIFICATION_",
    "ForTokenClassification": "FOR_TOKEN_CLASSIFICATION_",
    "ForQuestionAnswering": "FOR_QUESTION_ANSWERING_",
    "ForMaskedLM": "FOR_MASKED_LM_",
    "ForCausalLM": "FOR_CAUSAL_LM_",
}
NAMESAKES = {"BertForCausalLM": "BertLMHeadModel"}
USUAL = [("Bert", "conv2d-5x5-bias-gate", False), ("Roberta", "conv2d-three-l2", True)]
ALL = [(family, name, decodes) for family in ("Bert", "Roberta") for name in FUSIONS for decodes in (False, True)]
RANDOM = {"conv2d-frozen-permuted": {"test_init_weights_can_init_buffers"}}
"""Fusion with a random buffer, a frozen kernel → transformers' test that takes buffers for constants."""
LEAST = 95  # tests that pass; the others are of GPUs, and of models with other parts than these


class Inputs:
    """A model tester of transformers: what to build, what to feed, what to expect."""

    batch_size, seq_length, is_training = 4, 7, True
    hidden_size, num_hidden_layers, num_attention_heads = WIDTH, 2, 4

    def __init__(self, settings: Any) -> None:
        self.settings = settings.to_dict()
        self.family = type(settings)

    def get_config(self) -> Any:
        return self.family(**self.settings)

    def prepare_config_and_inputs_for_common(self) -> tuple[Any, dict[str, torch.Tensor]]:
        inputs = batch((7, 5, 6, 2))
        inputs["input_ids"] = inputs["input_ids"].where(inputs["input_ids"] != PAD, 7)
        return self.get_config(), inputs

    def prepare_config_and_inputs_for_model_class(self, kind: type) -> tuple[Any, dict[str, torch.Tensor]]:
        return self.prepare_config_and_inputs_for_common()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "fusion" in metafunc.fixturenames:
        which = ALL if metafunc.config.getoption("--exhaustive") else USUAL
        metafunc.parametrize("family, fusion, decodes", which)


@pytest.fixture(scope="module")
def common(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> ModuleType:
    module = transformers_suite.load(tmp_path_factory.mktemp("transformers"), pytestconfig)
    for family in ("Bert", "Roberta"):
        for kind, task in TASKS.items():
            transformers_suite.introduce(module, task, f"Fusion{family}{kind}")
    return module


@pytest.fixture(scope="module")
def theirs(common: ModuleType) -> dict[tuple[str, bool], Outcome]:
    """Results of the library's own classes, computed once each."""
    return {}


def kinds(family: str, decodes: bool, prefix: str = "") -> list[str]:
    return [f"{prefix}{family}{kind}" for kind in TASKS if (kind == "ForCausalLM") is decodes]


@pytest.mark.slow
def test_ours_pass_whatever_the_librarys_own_pass(
    family: str,
    fusion: str,
    decodes: bool,
    common: ModuleType,
    theirs: dict[tuple[str, bool], Outcome],
    pytestconfig: pytest.Config,
) -> None:
    settings = config(FUSIONS[fusion], getattr(models, f"Fusion{family}Config"), is_decoder=decodes)
    own = [getattr(models, name) for name in kinds(family, decodes, "Fusion")]
    looks = own[0](settings).base_model.embeddings.fusion.uses_token_type  # else that table learns nothing
    found = transformers_suite.run(common, own, Inputs(settings), all_learn=looks)
    drawn = RANDOM.get(fusion, set())
    assert found.failed.keys() == drawn, "\n".join(f"{name}: {why}" for name, why in found.failed.items())
    assert len(found.passed | drawn) >= LEAST
    if not pytestconfig.getoption("--exhaustive"):
        return
    if (family, decodes) not in theirs:
        plain = getattr(transformers, f"{family}Config")
        held = {key: value for key, value in settings.to_dict().items() if key not in ("fusion", "init_std")}
        library = [getattr(transformers, NAMESAKES.get(name, name)) for name in kinds(family, decodes)]
        theirs[family, decodes] = transformers_suite.run(common, library, Inputs(plain(**held)))
    assert found.passed | drawn >= theirs[family, decodes].passed


@pytest.mark.parametrize("family", ["Bert", "Roberta"])
@pytest.mark.parametrize("name", RANDOM)
def test_a_random_buffer_is_drawn_by_the_seed_also_from_the_meta_device(family: str, name: str) -> None:
    """What the excepted test of transformers asks of constant buffers: the same values, here at equal seeds."""
    kind = getattr(models, f"Fusion{family}Model")
    settings = config(FUSIONS[name], kind.config_class)
    with torch.device("meta"):
        made = [kind(settings) for _ in range(3)]
    for seed, model in zip((0, 0, 1), made, strict=True):
        torch.manual_seed(seed)
        model.to_empty(device="cpu").init_weights()
    one, again, other = (model.embeddings.fusion.weight for model in made)
    assert one.isfinite().all()
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


def test_a_damaged_source_package_is_refused(
    tmp_path: Path, pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("parameterized", reason="parameterized is not installed: make hf")
    monkeypatch.setattr(transformers_suite, "SOURCES", tmp_path)
    (tmp_path / f"transformers-{transformers.__version__}.tar.gz").write_bytes(b"something else")
    with pytest.raises(AssertionError, match="is not what was published"):
        transformers_suite.load(tmp_path / "unpacked", pytestconfig)
