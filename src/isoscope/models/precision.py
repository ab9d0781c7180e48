"""Warn about precisions that are slow on the current device."""

import sys

import torch


def warn_of_emulation(precision: str, *, device: str, key: str) -> None:
    """Warn on stderr, naming `key`, if bf16 is requested on a CPU without bf16 instructions.

    The results are the same, but about fifty times slower than in fp32, and nothing else reports it.
    """
    # torch's own check for bf16 kernels in its CPU library; it has no public name.
    if precision == "bf16" and device == "cpu" and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        print(f"warning: {key}: bf16 is emulated on this CPU, many times slower than fp32", file=sys.stderr)
