"""Environment variables of libraries that change a run's numbers: ignored, refused, or recorded with the run.

Accelerate, torch, transformers and the libraries below them take settings from the environment. A run's numbers are
those of params.yaml, so such a setting must not reach the library, or must be seen.
"""

import gc
import os
import sys
from fnmatch import fnmatchcase
from importlib import import_module
from types import ModuleType
from typing import Literal, NamedTuple

from isoscope.base.errors import InputError
from isoscope.base.processes import rank, world_size

_OFF = frozenset(("", "0", "f", "false", "n", "no", "none", "off", "default"))
_FLAGS = _OFF | {"1", "t", "true", "y", "yes", "on"}
_LAUNCHER = ("RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
"""What a launcher sets for each of several processes, beside WORLD_SIZE."""


class Rule(NamedTuple):
    """What is done with variables whose name matches `pattern`, unless their value is `harmless`, and why.

    `ignored`: removed, with a warning. `refused`: an error. `recorded`: kept, and written into the run's environment.
    """

    pattern: str
    action: Literal["ignored", "refused", "recorded"]
    why: str
    harmless: frozenset[str] = _OFF


_SHARDS = "isoscope trains with DDP or one process; unset it, or start with accelerate launch --multi_gpu"
_KERNELS = "chooses kernels, threads or the order of sums"
RULES = (
    Rule("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "ignored", "training.accumulation decides", frozenset(("", "1"))),
    Rule("ACCELERATE_MIXED_PRECISION", "ignored", "training.precision decides"),
    Rule("ACCELERATE_FP8_*", "ignored", "training.precision decides"),
    Rule("ACCELERATE_DOWNCAST_BF16", "ignored", "training.precision decides"),
    Rule("ACCELERATE_TORCH_DEVICE", "ignored", "training.device decides", frozenset()),
    *(
        Rule(f"ACCELERATE_USE_{name}", "refused", _SHARDS)
        for name in ("DEEPSPEED", "FSDP", "MEGATRON_LM", "PARALLELISM_CONFIG", "SAGEMAKER")
    ),
    Rule("ACCELERATE_DYNAMO_BACKEND", "refused", "isoscope does not compile models; unset it, or set it to no"),
    *(
        Rule(name, "refused", "expected true or false; unset it", _FLAGS)
        for name in ("ACCELERATE_USE_CPU", "ACCELERATE_CPU_AFFINITY", "ACCELERATE_DEBUG_MODE", "FORK_LAUNCHED")
    ),
    *(
        Rule(pattern, "recorded", _KERNELS, frozenset())
        for pattern in (
            # torch: kernels of the CPU and the GPU
            "ATEN_CPU_CAPABILITY",
            "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
            "TORCH_BLAS_*",
            "TORCH_CUDNN_*",
            "TORCH_LINALG_*",
            "TORCH_LINEAR_*",
            "TORCH_MKLDNN_*",
            "PYTORCH_ENABLE_MPS_FALLBACK",
            "PYTORCH_TUNABLEOP_*",
            "XLA_*",
            "PJRT_DEVICE",
            # below torch and numpy
            "BLIS_*",
            "CUBLAS_*",
            "CUBLASLT_*",
            "CUDNN_*",
            "DNNL_*",
            "GOMP_*",
            "KMP_*",
            "MKL_*",
            "NCCL_ALGO",
            "NCCL_NTHREADS",
            "NCCL_PROTO",
            "NPY_*",
            "NUMBA_*",
            "NVIDIA_TF32_OVERRIDE",
            "OMP_*",
            "ONEDNN_*",
            "OPENBLAS_*",
            "GLIBC_TUNABLES",
            "LD_PRELOAD",
            # transformers
            "FLASH_ATTENTION_DETERMINISTIC",
            "TRANSFORMERS_SDPA_FORCE_GQA",
            "USE_HUB_KERNELS",
        )
    ),
)


def load(module: str) -> ModuleType:
    """Import a module that needs heavy libraries, without garbage collection: they create millions of objects."""
    settle()  # before the libraries read the environment
    gc.disable()
    try:
        return import_module(module)
    finally:
        gc.freeze()
        gc.enable()


def settle() -> None:
    """Remove the variables that are ignored, with a warning; a single process also forgets its launcher.

    Raises `InputError` for a variable that is refused, and if several processes are announced without the addresses
    that they need.
    """
    _check_launcher()
    for name, value in sorted(os.environ.items()):
        rule = _rule(name)
        if rule is None or rule.action == "recorded":
            continue
        harmless, shown = value.strip().lower() in rule.harmless, f"{name}={' '.join(value.split())[:60]}"
        if rule.action == "refused" and not harmless:
            raise InputError(f"{shown} in the environment: {rule.why}")
        if rule.action == "ignored":
            del os.environ[name]
            if not harmless and rank() == 0:
                print(f"warning: {shown} in the environment is ignored: {rule.why}", file=sys.stderr)


_BY_IMPORT = {"KMP_DUPLICATE_LIB_OK": "True", "KMP_INIT_AT_FORK": "FALSE"}
"""What scikit-learn and threadpoolctl set when they are imported: of a run it says only whether they had been."""


def recorded() -> dict[str, str]:
    """Return the variables that can change numbers and stay, for the environment line of a run."""
    return {
        name: value
        for name, value in sorted(os.environ.items())
        if (rule := _rule(name)) is not None and rule.action == "recorded" and _BY_IMPORT.get(name) != value
    }


def _rule(name: str) -> Rule | None:
    return next((rule for rule in RULES if fnmatchcase(name, rule.pattern)), None)


def _check_launcher() -> None:
    """Check what a launcher has set: all of it for several processes; for a single process it is removed."""
    if (size := world_size()) > 1:
        if lacking := [name for name in _LAUNCHER if not os.environ.get(name)]:
            raise InputError(
                f"WORLD_SIZE={size} in the environment, without {', '.join(lacking)}; unset WORLD_SIZE, or start the "
                "processes with accelerate launch --multi_gpu or torchrun"
            )
        for name in ("RANK", "LOCAL_RANK"):
            if not os.environ[name].isdecimal() or int(os.environ[name]) >= size:
                raise InputError(f"{name}={os.environ[name]!r} in the environment: expected a number below {size}")
        if not os.environ["MASTER_PORT"].isdecimal():
            raise InputError(f"MASTER_PORT={os.environ['MASTER_PORT']!r} in the environment: expected a number")
        return
    for name in ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE"):
        if os.environ.get(name, "1") not in ("0", "1"):
            raise InputError(
                f"{name}={os.environ[name]} in the environment: processes of MPI train apart from each other; start "
                f"them with accelerate launch --multi_gpu or torchrun, or unset {name}"
            )
    for name in ("WORLD_SIZE", *_LAUNCHER, "LOCAL_WORLD_SIZE"):
        os.environ.pop(name, None)
