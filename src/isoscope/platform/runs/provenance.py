"""Provenance of numbers: commit and diff, library versions, and DVC-compatible hashes."""

import hashlib
import json
import os
import platform
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Collection, Mapping
from functools import wraps
from importlib import metadata
from pathlib import Path
from typing import Any

from isoscope.base.atomic_files import sha256
from isoscope.base.environment import recorded
from isoscope.base.errors import InputError
from isoscope.platform.runs.secrets import scrub

# Sources and settings that people write. Not dvc.lock, because every run changes it.
SOURCES = (
    "src",
    "params.yaml",
    "variants",
    "profiles",
    "plugins",
    "dvc.yaml",
    "code.yaml",
    "pyproject.toml",
    "requirements.lock",
)
# A git hook inherits these variables; they may point to another repository.
ELSEWHERE = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
)
LIBRARIES = (
    "isoscope",
    "torch",
    "transformers",
    "tokenizers",
    "accelerate",
    "safetensors",
    "numpy",
    "numba",
    "llvmlite",
    "scipy",
    "scikit-learn",
    "datasets",
    "evaluate",
    "pyarrow",
    "dvc",
    "mlflow",
)


SETTLED = 10.0
"""Seconds after which a file's times show every later change of its bytes."""


class Git:
    """The sources at the start of a process: `commit`, and `diff` from that commit (text of `git diff`).

    Secrets in the diff are replaced; then `scrubbed` is true, and commit and diff no longer restore the sources
    exactly. `commit` is None without git, repository or commit. `dirty`: whether the sources differ from the commit, or
    there is none. `diff_sha256`: sha256 of the diff; None without a diff.
    """

    def __init__(self, commit: str | None, diff: str = "") -> None:
        self.commit = commit
        self.diff = scrub(diff)
        self.scrubbed = self.diff != diff
        self.dirty = commit is None or bool(self.diff)
        encoded = self.diff.encode("utf-8", "surrogateescape")
        self.diff_sha256 = hashlib.sha256(encoded).hexdigest() if self.diff else None


def git_state(root: Path) -> Git:
    """Return the current commit of the project in `root`, and the diff of its `SOURCES`.

    The diff contains staged, unstaged and untracked changes, not ignored files: commit and diff restore the sources
    exactly. Does not change the repository.
    """
    try:
        commit = run_git(root, "rev-parse", "--verify", "--quiet", "HEAD^{commit}").strip()
        new = run_git(root, "ls-files", "--others", "--exclude-standard", "-z", "--", *SOURCES)
        places = (run_git(root, "rev-parse", "--git-path", name).strip() for name in ("index", "objects"))
        index, objects = (root / place for place in places)
        with tempfile.TemporaryDirectory() as folder:
            # Add untracked files to a private index and object store, so that the user's index stays unchanged.
            private = {
                "GIT_INDEX_FILE": f"{folder}/index",
                "GIT_OBJECT_DIRECTORY": folder,
                "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(objects.resolve()),
            }
            if index.exists():
                # Keep its mtime: git uses it to detect files changed within the same clock tick.
                shutil.copy2(index, private["GIT_INDEX_FILE"])
            if new:
                listed = ("--pathspec-from-file=-", "--pathspec-file-nul")
                run_git(root, "--literal-pathspecs", "add", "--intent-to-add", *listed, private=private, stdin=new)
            form = ("--binary", "--no-color", "--no-ext-diff", "--no-textconv", "--no-renames")
            diff = run_git(root, "diff", *form, "HEAD", "--", *SOURCES, private=private)
    except (OSError, subprocess.SubprocessError):
        return Git(None)
    return Git(commit, diff)


def run_git(root: Path, *arguments: str, private: Mapping[str, str] | None = None, stdin: str = "") -> str:
    """Return what git says in a folder, whatever variables a hook has set. Raises as `subprocess.run` does."""
    env = {name: value for name, value in os.environ.items() if name not in ELSEWHERE}
    env |= {"GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C", **(private or {})}
    given = stdin.encode("utf-8", "surrogateescape")
    done = subprocess.run(
        ("git", *arguments), cwd=root, env=env, input=given, capture_output=True, check=True, timeout=60
    )
    return done.stdout.decode("utf-8", "surrogateescape")


def environment(*, device: str, threads: int | None, processes: int = 1, precision: str) -> dict[str, Any]:
    """Return what else can change numbers: Python and library versions, device, threads, processes, precision.

    Also the environment variables that libraries read (`isoscope.base.environment`). Imports no library.
    """
    versions = {}
    for name in LIBRARIES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return {
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        **versions,
        "device": device,
        "threads": threads,
        "processes": processes,
        "precision": precision,
        **recorded(),
    }


def slurm_job() -> dict[str, str] | None:
    """Return id, node and log file of the job that `--cluster slurm` has made this process; None without."""
    names = (("id", "ISOSCOPE_JOB"), ("node", "SLURMD_NODENAME"), ("log", "ISOSCOPE_LOG"))
    return {fact: os.environ.get(name, "") for fact, name in names} if "ISOSCOPE_LOG" in os.environ else None


def remembered(hashed: Callable[[Path], str]) -> Callable[[Path], str]:
    """Let this process hash a file only once while its place, size and times stay; not a file just written.

    A file may change twice within a tick of the file system's clock, so it must be older than `SETTLED`.
    """
    known: dict[tuple[Path, tuple[int, ...]], str] = {}

    @wraps(hashed)
    def found(path: Path) -> str:
        stat = path.stat()
        stamp = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
        if time.time() - max(stat.st_mtime, stat.st_ctime) < SETTLED:
            return hashed(path)
        if (path, stamp) not in known:
            known[path, stamp] = hashed(path)
        return known[path, stamp]

    return found


file_sha256 = remembered(sha256)


@remembered
def file_md5(path: Path) -> str:
    """Return the md5 of a file's bytes, as DVC computes it."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def tree_md5(files: Mapping[str, str]) -> str:
    """Return DVC's hash `<md5>.dir` of a folder from its files' md5s, by relative path with `/`.

    It is the md5 of a JSON list of {"md5", "relpath"}, sorted by path (dvc_data.hashfile.tree).
    """
    listing = json.dumps([{"md5": files[path], "relpath": path} for path in sorted(files)])
    return f"{hashlib.md5(listing.encode(), usedforsecurity=False).hexdigest()}.dir"


def file_md5s(folder: Path, *, leave_out: Collection[str] = ()) -> dict[str, str]:
    """Return the md5 of every file below a folder, by relative path with `/`; skip file names in `leave_out`.

    As in DVC, links to files are followed, links to folders are not, and empty folders are skipped. Unlike in DVC,
    files in .dvcignore are included; outputs contain none. A link whose file is gone has the md5 "", which nothing has.
    """
    paths = [Path(place, name) for place, _, names in os.walk(folder) for name in set(names) - set(leave_out)]
    return {path.relative_to(folder).as_posix(): file_md5(path) if path.exists() else "" for path in paths}


def dvc_md5(path: Path, *, leave_out: Collection[str] = ()) -> str:
    """Return DVC's hash of a file or folder, as in `dvc.lock` (for a folder inside an output: hash of its subtree).

    Skips file names in `leave_out`. Raises `InputError` if the path does not exist.
    """
    if path.is_file():
        return file_md5(path)
    if not path.is_dir():
        raise InputError(f"{path}: no such file or folder; cannot compute its hash")
    return tree_md5(file_md5s(path, leave_out=leave_out))
