"""Run a command on a kernel that refuses flock, as Lustre does: `python no_locks.py ERRNO COMMAND …`.

The refusal is the kernel's own (seccomp), so every process and library below sees it.
"""

import ctypes
import os
import platform
import struct
import sys

FLOCK = {"x86_64": 73, "aarch64": 32}
_LOAD_NUMBER, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_REFUSE, _ALLOW = 0x00050000, 0x7FFF0000
_NO_NEW_PRIVILEGES, _SECCOMP, _FILTER = 38, 22, 2


def refuse(number: int) -> None:
    """Let every later flock of this process and its children fail with this errno."""
    program = b"".join(
        struct.pack("HBBI", *line)
        for line in (
            (_LOAD_NUMBER, 0, 0, 0),
            (_JUMP_IF_EQUAL, 0, 1, FLOCK[platform.machine()]),
            (_RETURN, 0, 0, _REFUSE | number),
            (_RETURN, 0, 0, _ALLOW),
        )
    )
    lines = ctypes.create_string_buffer(program, len(program))
    described = struct.pack("HL", len(program) // 8, ctypes.addressof(lines))
    libc = ctypes.CDLL(None, use_errno=True)
    for call in ((_NO_NEW_PRIVILEGES, 1, 0, 0, 0), (_SECCOMP, _FILTER, described, 0, 0)):
        if libc.prctl(*call):
            raise OSError(ctypes.get_errno(), "prctl")


if __name__ == "__main__":
    refuse(int(sys.argv[1]))
    os.execvp(sys.argv[2], sys.argv[2:])
