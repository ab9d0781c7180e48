"""What an arithmetic costs on the device at hand."""

import sys

import torch


def warn_of_emulation(precision: str, *, device: str, key: str) -> None:
    """Say on stderr, naming `key`, where bf16 is asked of a CPU that has no instructions for it.

    It gives the same figures there, some fifty times as slowly as fp32, and nothing else would tell.
    """
    # torch's own test of whether its library for the CPU has kernels for bf16 here; there is no public name for it.
    if precision == "bf16" and device == "cpu" and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        print(f"warning: {key}: bf16 is emulated on this CPU, many times slower than fp32", file=sys.stderr)
