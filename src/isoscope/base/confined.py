"""Let the kernel confine this process: no network, no other program, and files are written in one folder only.

Needs Linux 5.13 or newer (Landlock for files, seccomp for system calls), and no root. It cannot be undone, and holds
for every later thread and child.
"""

import ctypes
import os
import platform
import struct
import sys
from pathlib import Path

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""Architecture → the kernel's number of it (AUDIT_ARCH_…)."""
# Number of each refused system call on x86_64 and on aarch64; the second has none of the old forms.
_REFUSED = {
    "socket": (41, 198),
    "connect": (42, 203),
    "io_uring_setup": (425, 425),
    "execve": (59, 221),
    "execveat": (322, 281),
    "ptrace": (101, 117),
    "process_vm_writev": (311, 271),
    "kill": (62, 129),
    "tkill": (200, 130),
    "tgkill": (234, 131),
    "pidfd_send_signal": (424, 424),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "setpriority": (141, 140),
    "openat2": (437, 437),  # its flags are out of a filter's reach
    # What Landlock lets pass: a file's length, mode, owner, times and attributes.
    "truncate": (76, 45),
    "chmod": (90,),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92,),
    "fchown": (93, 55),
    "lchown": (94,),
    "fchownat": (260, 54),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "setxattrat": (463, 463),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "removexattrat": (466, 466),
    "utimensat": (280, 88),
    "utime": (132,),
    "utimes": (235,),
    "futimesat": (261,),
}
_OPENS = {"open": ((2,), 1), "openat": ((257, 56), 2)}
"""System calls that open files, as `_REFUSED`, and which of their arguments has the flags."""
_EMPTIES = (os.O_TRUNC, os.O_TRUNC | os.O_ACCMODE)
"""Flags that empty a file without asking to write it, which Landlock lets pass before Linux 6.2."""
_WRITE = 1 << 1
_WRITES = _WRITE | sum(1 << bit for bit in range(4, 13))
"""Landlock's rights to write a file, and to make or remove files, folders, links and devices."""
_RULESET, _RULE, _RESTRICT = 444, 445, 446
_NO_NEW_PRIVILEGES, _SECCOMP, _FILTER = 38, 22, 2
_LOAD, _AND, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
_KILL, _REFUSE, _ALLOW = 0x80000000, 0x00050001, 0x7FFF0000
"""What the filter answers; `_REFUSE` is the error EPERM."""
_OTHER_NUMBERS = 0x40000000
"""First number of x86_64's second table of system calls (x32), which is refused as a whole."""


def confine(folder: Path) -> None:
    """Refuse this process, for good, sockets, other programs, signals, and writing outside the existing `folder`.

    Files stay readable. Raises `OSError` where the kernel cannot do this, or if the process already has threads, which
    would not be confined.
    """
    machine = platform.machine()
    if sys.platform != "linux" or machine not in ARCHITECTURES:
        raise OSError(f"a process cannot be confined on {sys.platform} {machine}; it can on Linux, x86_64 and aarch64")
    if len(os.listdir("/proc/self/task")) > 1:  # noqa: PTH208 - of the kernel
        raise OSError("a process with several threads cannot be confined")
    libc = ctypes.CDLL(None, use_errno=True)
    rights = struct.pack("=Q", _WRITES)
    ruleset = _checked(libc.syscall(_RULESET, rights, len(rights), 0), "Landlock (Linux 5.13)")
    for path, allowed in ((folder, _WRITES), (os.devnull, _WRITE)):  # libraries open os.devnull when imported
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        _checked(libc.syscall(_RULE, ruleset, 1, struct.pack("=Qi", allowed, descriptor), 0), "Landlock")
        os.close(descriptor)
    _checked(libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0), "no_new_privs")
    _checked(libc.syscall(_RESTRICT, ruleset, 0), "Landlock")
    program = b"".join(struct.pack("=HBBI", *one) for one in _filter(machine))
    text = ctypes.create_string_buffer(program, len(program))
    given = struct.pack("@HP", len(program) // 8, ctypes.addressof(text))
    _checked(libc.prctl(_SECCOMP, _FILTER, given, 0, 0), "seccomp")
    os.close(ruleset)


def _filter(machine: str) -> list[tuple[int, int, int, int]]:
    """Return the filter of system calls as instructions of the kernel's BPF: code, jump if true, if false, value."""
    number = [*ARCHITECTURES].index(machine)
    refused = [one[number] for one in _REFUSED.values() if len(one) > number]
    asked = [(_AT_LEAST, _OTHER_NUMBERS), *((_EQUAL, one) for one in refused)]
    begin = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, ARCHITECTURES[machine]), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, 0)]
    tests = [one for code, value in asked for one in ((code, 0, 1, value), (_RETURN, 0, 0, _REFUSE))]
    for numbers, argument in _OPENS.values():
        if len(numbers) > number:
            empties = [(_EQUAL, 1, 0, _EMPTIES[0]), (_EQUAL, 0, 1, _EMPTIES[1]), (_RETURN, 0, 0, _REFUSE)]
            flags = [(_LOAD, 0, 0, 16 + 8 * argument), (_AND, 0, 0, os.O_TRUNC | os.O_ACCMODE), *empties]
            tests += [(_EQUAL, 0, 1 + len(flags), numbers[number]), *flags, (_LOAD, 0, 0, 0)]
    return [*begin, *tests, (_RETURN, 0, 0, _ALLOW)]


def _checked(result: int, what: str) -> int:
    if result < 0:
        raise OSError(f"this kernel refuses {what}: {os.strerror(ctypes.get_errno())}")
    return result
