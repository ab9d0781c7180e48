"""Variables of the shell: each gives the same bytes, is refused in one line, or stands in the run's environment."""

import os
from pathlib import Path

import pytest
from accelerate.state import AcceleratorState, GradientState

from isoscope.base.environment import RULES, recorded, settle
from isoscope.base.errors import InputError
from isoscope.platform.runs.provenance import environment
from isoscope.training.ranks import make_accelerator
from training_runs import SETTINGS, attributes, files, make_loop

IGNORED = {
    "ACCELERATE_GRADIENT_ACCUMULATION_STEPS": "4",
    "ACCELERATE_MIXED_PRECISION": "bf16",
    "ACCELERATE_FP8_BACKEND": "TE",
    "ACCELERATE_DOWNCAST_BF16": "true",
    "ACCELERATE_TORCH_DEVICE": "meta",
}
WITHOUT_EFFECT = {
    "ACCELERATE_BYPASS_DEVICE_MAP": "true",
    "ACCELERATE_CPU_AFFINITY": "false",
    "ACCELERATE_DEBUG_MODE": "true",
    "ACCELERATE_DEEPSPEED_ZERO_STAGE": "3",
    "ACCELERATE_DYNAMO_BACKEND": "no",
    "ACCELERATE_DYNAMO_MODE": "max-autotune",
    "ACCELERATE_GRADIENT_CLIPPING": "0.1",
    "ACCELERATE_INIT_INCLUDE_BUFFERS": "true",
    "ACCELERATE_LOG_LEVEL": "ERROR",
    "ACCELERATE_USE_CPU": "true",
    "ACCELERATE_USE_FSDP": "false",
    "FSDP_CPU_RAM_EFFICIENT_LOADING": "true",
    "PARALLELISM_CONFIG_TP_SIZE": "2",
    "HF_ENDPOINT": "http://127.0.0.1:9",
    "TOKENIZERS_PARALLELISM": "true",
    "TRANSFORMERS_SDPA_FORCE_GQA": "1",
    "TRANSFORMERS_VERBOSITY": "error",
    "TORCH_DISTRIBUTED_DEBUG": "DETAIL",
    "LOCAL_RANK": "0",
    "RANK": "0",
    "WORLD_SIZE": "1",
    "MASTER_PORT": "no number",
    "PMI_SIZE": "1",
}
REFUSED = {
    "ACCELERATE_USE_DEEPSPEED": "true",
    "ACCELERATE_USE_FSDP": "1",
    "ACCELERATE_USE_MEGATRON_LM": "yes",
    "ACCELERATE_USE_PARALLELISM_CONFIG": "true",
    "ACCELERATE_USE_SAGEMAKER": "true",
    "ACCELERATE_DYNAMO_BACKEND": "INDUCTOR",
    "ACCELERATE_USE_CPU": "perhaps",
    "ACCELERATE_CPU_AFFINITY": "perhaps",
    "ACCELERATE_DEBUG_MODE": "perhaps",
    "FORK_LAUNCHED": "perhaps",
    "WORLD_SIZE": "2",
    "PMI_SIZE": "2",
    "OMPI_COMM_WORLD_SIZE": "4",
    "MV2_COMM_WORLD_SIZE": "x",
}


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Accelerate reads the environment once per process: forget what it read, before and after."""
    for name in {*IGNORED, *WITHOUT_EFFECT, *REFUSED}:
        monkeypatch.setenv(name, "")  # restored at the end, also where the code removes it
        monkeypatch.delenv(name)
    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()
    yield monkeypatch
    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()


def trained(folder: Path) -> dict[str, bytes]:
    """The bytes of six updates, by the Accelerator of the command line."""
    loop = make_loop(folder, rows=24, epochs=2, accelerator=make_accelerator(attributes(SETTINGS), unused=False))
    loop.test(loop.fit())
    return files(folder / "work")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return trained(tmp_path_factory.mktemp("plain"))


@pytest.mark.parametrize("name, value", sorted((IGNORED | WITHOUT_EFFECT).items()))
def test_the_same_bytes_with_it(
    plain: dict[str, bytes], name: str, value: str, tmp_path: Path, fresh: pytest.MonkeyPatch, capsys
) -> None:
    fresh.setenv(name, value)
    assert trained(tmp_path) == plain
    warned = f"warning: {name}={value} in the environment is ignored: training." in capsys.readouterr().err
    assert warned == (name in IGNORED)


@pytest.mark.parametrize("name, value", sorted(REFUSED.items()))
def test_it_is_refused_in_one_line(name: str, value: str, fresh: pytest.MonkeyPatch) -> None:
    fresh.setenv(name, value)
    with pytest.raises(InputError, match=f"^{name}=.* in the environment.*unset") as found:
        make_accelerator(attributes(SETTINGS), unused=False)
    assert "\n" not in str(found.value)


@pytest.mark.parametrize("wrong", [
    {"RANK": "2"}, {"RANK": "x"}, {"LOCAL_RANK": "-1"}, {"MASTER_PORT": "x"}, {"MASTER_ADDR": ""},
])  # fmt: skip
def test_a_contradiction_of_the_launcher_is_one_line(wrong: dict[str, str], fresh: pytest.MonkeyPatch) -> None:
    launched = {"WORLD_SIZE": "2", "RANK": "1", "LOCAL_RANK": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
    for name, value in (launched | wrong).items():
        fresh.setenv(name, value)
    with pytest.raises(InputError, match=next(iter(wrong))):
        settle()
    for name, value in launched.items():
        fresh.setenv(name, value)
    settle()
    assert os.environ["WORLD_SIZE"] == "2", "several processes keep what the launcher has set"


def test_variables_that_choose_kernels_stand_in_the_environment_of_a_run(fresh: pytest.MonkeyPatch) -> None:
    before = environment(device="cpu", threads=1, precision="fp32")
    for rule in RULES:
        if rule.action == "recorded":
            fresh.setenv(rule.pattern.replace("*", "SOME"), "7")
    expected = {rule.pattern.replace("*", "SOME"): "7" for rule in RULES if rule.action == "recorded"}
    assert expected.items() <= environment(device="cpu", threads=1, precision="fp32").items()
    assert environment(device="cpu", threads=1, precision="fp32") == before | expected
    settle()
    assert expected.items() <= recorded().items(), "what is recorded is not removed"


def test_every_rule_is_tried() -> None:
    tried = {*IGNORED, *REFUSED}
    known = {rule.pattern for rule in RULES if rule.action != "recorded" and "*" not in rule.pattern}
    assert known <= tried


def test_what_scikit_learn_sets_at_its_import_is_no_setting_of_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KMP_INIT_AT_FORK", raising=False)
    before = recorded()
    monkeypatch.setenv("KMP_INIT_AT_FORK", "FALSE")
    assert recorded() == before
    monkeypatch.setenv("KMP_INIT_AT_FORK", "TRUE")
    assert recorded() == before | {"KMP_INIT_AT_FORK": "TRUE"}
