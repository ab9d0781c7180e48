"""DVC's two locks: dvc.lock, which knows each output's hash, and the one on paths, freed of its dead owners."""

import json
import time
from pathlib import Path

from isoscope.config.tree import read_yaml

LOCK = Path("dvc.lock")
RWLOCK = Path(".dvc/tmp/rwlock")


def locked(folder: Path) -> dict[str, str]:
    """Path → hash of every output in the dvc.lock of a project's folder."""
    if not (folder / LOCK).is_file():
        return {}
    stages = read_yaml(folder, LOCK, most=None).get("stages") or {}
    return {
        str(out["path"]): str(out["md5"]) for stage in stages.values() for out in stage.get("outs", ()) if "md5" in out
    }


def free_dvc(folder: Path) -> None:
    """Remove DVC's rwlock where none of the processes it names is a living dvc, or where a kill has cut it short.

    DVC asks only whether a process of that number exists. A zombie does (a container whose first process reaps none
    keeps them for good), and so does any other process that has got the number since; and DVC writes the file in place.
    """
    path = folder / RWLOCK
    owners = _owners(path)
    if owners is None:
        time.sleep(0.5)  # a living dvc may be writing it this moment
        owners = _owners(path)
    if owners is None or (owners and not any(_alive(pid) for pid in owners)):
        path.unlink(missing_ok=True)


def _owners(path: Path) -> set[int] | None:
    """The processes that the file names; None where it cannot be read."""
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
    """Whether a process is a dvc that still runs; where there is no /proc, it is taken to be one."""
    if not Path("/proc/self").exists():
        return True
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state not in "ZX" and b"dvc" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
