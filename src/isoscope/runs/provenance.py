"""Where numbers come from: the commit and what differs from it, the libraries, and hashes as DVC takes them."""

import hashlib
import json
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

from isoscope.errors import InputError
from isoscope.runs.secrets import scrub

# Sources and settings: what a person writes. dvc.lock is not among them, since every run changes it.
SOURCES = (
    "src",
    "params.yaml",
    "variants",
    "profiles",
    "plugins",
    "dvc.yaml",
    "pyproject.toml",
    "requirements.lock",
)
# As a git hook inherits them, these speak of another repository than the project's.
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


class Git:
    """The sources at the start of a process: `commit`, and `diff`, what differs from it (text of `git diff`).

    Secrets in the diff are replaced, and `scrubbed` is true then: what is stored never holds one, at the price that
    commit and diff no longer give the sources back exactly. `commit` is None where there is no git, no repository or no
    commit; then nothing vouches for the sources and `dirty` is true.
    """

    def __init__(self, commit: str | None, diff: str = "") -> None:
        self.commit = commit
        self.diff = scrub(diff)
        self.scrubbed = self.diff != diff

    @property
    def dirty(self) -> bool:
        """Whether the sources are other than the commit says."""
        return self.commit is None or bool(self.diff)

    @cached_property
    def diff_sha256(self) -> str | None:
        """sha256 of the diff, None without one."""
        return hashlib.sha256(self.diff.encode("utf-8", "surrogateescape")).hexdigest() if self.diff else None


def git_state(root: Path, *, paths_that_count: Iterable[str] = SOURCES) -> Git:
    """The commit that the project in `root` stands on and how the named files differ from it.

    Staged, unstaged and untracked changes are all in the diff (ignored files are not), so that the commit and the diff
    give the sources back exactly. Nothing in the repository is touched.
    """
    try:
        commit = _git(root, "rev-parse", "--verify", "--quiet", "HEAD^{commit}").strip()
        new = _git(root, "ls-files", "--others", "--exclude-standard", "-z", "--", *paths_that_count)
        index, objects = (root / _git(root, "rev-parse", "--git-path", name).strip() for name in ("index", "objects"))
        with tempfile.TemporaryDirectory() as folder:
            # A private index, and a place for objects, can be told of untracked files without the user's being changed.
            private = {
                "GIT_INDEX_FILE": f"{folder}/index",
                "GIT_OBJECT_DIRECTORY": folder,
                "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(objects.resolve()),
            }
            if index.exists():
                # With its time: by it git knows which files may have changed since within the same tick of the clock.
                shutil.copy2(index, private["GIT_INDEX_FILE"])
            if new:
                listed = ("--pathspec-from-file=-", "--pathspec-file-nul")
                _git(root, "--literal-pathspecs", "add", "--intent-to-add", *listed, private=private, stdin=new)
            form = ("--binary", "--no-color", "--no-ext-diff", "--no-textconv", "--no-renames")
            diff = _git(root, "diff", *form, "HEAD", "--", *paths_that_count, private=private)
    except (OSError, subprocess.SubprocessError):
        return Git(None)
    return Git(commit, diff)


def _git(root: Path, *arguments: str, private: Mapping[str, str] | None = None, stdin: str = "") -> str:
    env = {name: value for name, value in os.environ.items() if name not in ELSEWHERE}
    env |= {"GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C", **(private or {})}
    given = stdin.encode("utf-8", "surrogateescape")
    done = subprocess.run(
        ("git", *arguments), cwd=root, env=env, input=given, capture_output=True, check=True, timeout=60
    )
    return done.stdout.decode("utf-8", "surrogateescape")


def environment(*, device: str, threads: int | None, processes: int = 1, precision: str) -> dict[str, Any]:
    """What else can move numbers: versions of Python and libraries (none is imported), device, processes, precision."""
    versions = {}
    for name in LIBRARIES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    machine = f"{platform.system()} {platform.machine()}"
    return {
        "python": platform.python_version(),
        "platform": machine,
        **versions,
        "device": device,
        "threads": threads,
        "processes": processes,
        "precision": precision,
    }


def file_md5(path: Path) -> str:
    """md5 of a file's bytes, DVC's name for it."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def tree_md5(files: Mapping[str, str]) -> str:
    """DVC's name for a folder whose files, by path below it with `/`, have these md5s: `<md5>.dir`.

    It is the md5 of a JSON list of {"md5", "relpath"}, sorted by path (dvc_data.hashfile.tree).
    """
    listing = json.dumps([{"md5": files[path], "relpath": path} for path in sorted(files)])
    return f"{hashlib.md5(listing.encode(), usedforsecurity=False).hexdigest()}.dir"


def file_md5s(folder: Path, *, leave_out: Collection[str] = ()) -> dict[str, str]:
    """The md5 of every file below a folder, by its path there with `/`; files called as in `leave_out` do not count.

    Links to files are read through, links to folders are not entered, empty folders do not count: as DVC does it. Files
    that a .dvcignore hides do count, as an output holds none.
    """
    paths = [Path(place, name) for place, _, names in os.walk(folder) for name in set(names) - set(leave_out)]
    return {path.relative_to(folder).as_posix(): file_md5(path) for path in paths}


def dvc_md5(path: Path, *, leave_out: Collection[str] = ()) -> str:
    """DVC's own hash of a file or a folder, as `dvc.lock` holds it (of a folder within an output: its subtree's name).

    Files called as in `leave_out` do not count. Raises `InputError` where there is nothing.
    """
    if path.is_file():
        return file_md5(path)
    if not path.is_dir():
        raise InputError(f"{path}: no such file or folder, so it has no hash")
    return tree_md5(file_md5s(path, leave_out=leave_out))
