"""Read the output hashes in dvc.lock, and remove stale DVC path locks (rwlock) left by dead processes."""

import json
import time
from pathlib import Path

from isoscope.config.tree import read_yaml

LOCK = Path("dvc.lock")
RWLOCK = Path(".dvc/tmp/rwlock")


def locked(folder: Path) -> dict[str, str]:
    """Return path → hash of every output in a project's dvc.lock."""
    if not (folder / LOCK).is_file():
        return {}
    stages = read_yaml(folder, LOCK, most=None).get("stages") or {}
    return {
        str(out["path"]): str(out["md5"]) for stage in stages.values() for out in stage.get("outs", ()) if "md5" in out
    }


def free_dvc(folder: Path) -> None:
    """Remove DVC's rwlock if it is stale: none of its processes is a live dvc, or a kill truncated the file.

    DVC only checks that a process with that pid exists. A zombie exists (in a container whose init reaps no children,
    forever), and so does another process that reuses the pid. DVC writes the file in place, so a kill can truncate it.
    """
    path = folder / RWLOCK
    owners = _owners(path)
    if owners is None:
        time.sleep(0.5)  # a live dvc may be writing it right now
        owners = _owners(path)
    if owners is None or (owners and not any(_alive(pid) for pid in owners)):
        path.unlink(missing_ok=True)


def _owners(path: Path) -> set[int] | None:
    """Return the pids in the file; None if it cannot be read."""
    try:
        held = json.loads(path.read_text("utf-8"))
        readers = [one for infos in held.get("read", {}).values() for one in infos]
        writers = [info for info in held.get("write", {}).values() if info]
        return {int(info["pid"]) for info in (*readers, *writers)}
    except FileNotFoundError:
        return set()
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _alive(pid: int) -> bool:
    """Return whether a process is a live dvc; without /proc, assume that it is."""
    if not Path("/proc/self").exists():
        return True
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state not in "ZX" and b"dvc" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
