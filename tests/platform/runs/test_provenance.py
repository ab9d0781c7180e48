import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from isoscope.base.errors import InputError
from isoscope.platform.runs.provenance import dvc_md5, environment, file_md5, git_state, tree_md5


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True)
    return done.stdout.decode()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A committed project, with a relevant file of every kind and an irrelevant file."""
    root = tmp_path / "repository"
    (root / "src" / "package").mkdir(parents=True)
    (root / "src" / "package" / "code.py").write_text("x = 1\n")
    (root / "src" / "package" / "table.bin").write_bytes(bytes(range(256)))
    (root / "params.yaml").write_text("training: {epochs: 3}\n")
    (root / "dvc.lock").write_text("schema: '2.0'\n")
    (root / "README.md").write_text("readme\n")
    (root / ".gitignore").write_text("__pycache__/\n/plugins/\n")
    _git(root, "init", "--quiet")
    _git(root, "add", ".")
    _git(root, "commit", "--quiet", "-m", "first")
    return root


def test_a_link_whose_file_is_gone_is_another_file(tmp_path: Path) -> None:
    """DVC's cache may link, and lose what it links to."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a").write_text("a")
    (tmp_path / "b").write_text("b")
    (tmp_path / "one/b").symlink_to(tmp_path / "b")
    before = dvc_md5(tmp_path / "one")
    (tmp_path / "b").unlink()
    assert dvc_md5(tmp_path / "one") not in (before, dvc_md5(tmp_path / "two"))


@pytest.mark.parametrize(
    "path", ["dvc.lock", "README.md", "notes.txt", "src/package/__pycache__/a.pyc", "plugins/x.py"]
)
def test_what_is_neither_source_nor_setting_does_not_count(repository: Path, path: str) -> None:
    (repository / path).parent.mkdir(exist_ok=True)
    (repository / path).write_text("other\n")
    state = git_state(repository)
    assert state.commit == _git(repository, "rev-parse", "HEAD").strip()
    assert (state.dirty, state.diff, state.diff_sha256) == (False, "", None)


EDITED = {"params.yaml": b"training: {epochs: 4}\n"}
CHANGES: dict[str, dict[str, bytes | None]] = {
    "edit": EDITED,
    "stage": EDITED,
    "add": {"variants/fusion/größe [1]*.yaml": b"model: {fusion: {kind: fft}}\n"},
    "delete": {"src/package/code.py": None},
    "binary": {"src/package/table.bin": bytes(range(255, -1, -1)), "src/new.bin": b"\0\1\2" * 100},
    "latin": {"src/package/code.py": "x = 'é'\r\n".encode("latin-1")},
}


@pytest.mark.parametrize("change", CHANGES)
def test_commit_and_diff_give_the_sources_back(repository: Path, tmp_path: Path, change: str) -> None:
    for name, content in CHANGES[change].items():
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).write_bytes(content) if content else (repository / name).unlink()
    if change == "stage":
        _git(repository, "add", "params.yaml")
    before = _files(repository / ".git")
    state = git_state(repository)
    assert state.dirty
    assert _files(repository / ".git") == before
    copy = tmp_path / "copy"
    _git(tmp_path, "clone", "--quiet", str(repository), str(copy))
    _git(copy, "checkout", "--quiet", str(state.commit))
    patch = tmp_path / "diff.patch"
    patch.write_bytes(os.fsencode(state.diff))
    _git(copy, "apply", "--binary", str(patch))
    for folder in (repository, copy):
        shutil.rmtree(folder / ".git")
    assert _files(copy) == _files(repository)


def test_a_project_in_a_folder_of_the_repository_is_seen_alone(repository: Path) -> None:
    (repository / "inner/src").mkdir(parents=True)
    (repository / "inner/src/code.py").write_text("y = 1\n")
    assert not git_state(repository).dirty
    assert "inner/src/code.py" in git_state(repository / "inner").diff


def test_a_change_within_the_tick_of_the_commit_is_seen(repository: Path) -> None:
    """Of a file with the size and the times of the committed one, git rereads the bytes if the index is as young."""
    file = repository / "src" / "package" / "table.bin"
    _git(repository, "config", "core.trustctime", "false")
    os.utime(file, (1_700_000_000, 1_700_000_000))
    _git(repository, "update-index", "--refresh")
    times = file.stat()
    file.write_bytes(file.read_bytes()[::-1])
    for path in (file, repository / ".git" / "index"):
        os.utime(path, ns=(times.st_mtime_ns, times.st_mtime_ns))
    assert git_state(repository).dirty


def _files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_without_git_a_repository_or_a_commit_nothing_vouches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (git_state(tmp_path).commit, git_state(tmp_path).dirty) == (None, True)
    _git(tmp_path, "init", "--quiet")
    assert (git_state(tmp_path).commit, git_state(tmp_path).dirty) == (None, True)
    monkeypatch.setenv("PATH", "")
    assert (git_state(tmp_path).commit, git_state(tmp_path).dirty) == (None, True)


def test_an_inherited_git_dir_means_nothing(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = git_state(repository).commit
    other = tmp_path / "other"
    other.mkdir()
    _git(other, "init", "--quiet")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / "index"))
    assert git_state(repository).commit == expected


@pytest.fixture(scope="module")
def named_by_dvc(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path | str]:
    """A folder and a file, and the hashes that `dvc add` gives them."""
    root = tmp_path_factory.mktemp("dvc")
    folder = root / "output"
    (folder / "checkpoints" / "epoch-1").mkdir(parents=True)
    (folder / "empty").mkdir()
    (folder / "checkpoints" / "epoch-1" / "config.json").write_text('{"a": 1}\r\n')
    (folder / "checkpoints" / "epoch-1" / "model.safetensors").write_bytes(os.urandom(3000))
    (folder / "checkpoints.txt").write_text("sorts between the folder and what is in it\n")
    (folder / "größe „x“.txt").write_text("ü")
    (folder / "nothing").touch()
    (root / "elsewhere.bin").write_bytes(b"linked")
    (folder / "link.bin").symlink_to(root / "elsewhere.bin")
    shutil.copytree(folder / "checkpoints" / "epoch-1", root / "checkpoint")
    (root / "file.csv").write_bytes(b"a,b\r\n1,2\r\n")
    dvc = [sys.executable, "-m", "dvc"]
    for command in (["init", "--no-scm", "--quiet"], ["add", "--quiet", "output", "checkpoint", "file.csv"]):
        subprocess.run([*dvc, *command], cwd=root, check=True)
    named: dict[str, Path | str] = {"root": root}
    for name in ("output", "checkpoint", "file.csv"):
        named[name] = YAML(typ="safe").load(root / f"{name}.dvc")["outs"][0]["md5"]
    return named


def test_a_hash_is_the_one_dvc_writes_and_what_is_left_out_does_not_count(named_by_dvc: dict[str, Path | str]) -> None:
    root = Path(named_by_dvc["root"])
    assert dvc_md5(root / "file.csv") == named_by_dvc["file.csv"]
    assert dvc_md5(root / "output") == named_by_dvc["output"]
    assert dvc_md5(root / "output" / "checkpoints" / "epoch-1") == named_by_dvc["checkpoint"]
    (root / "checkpoint" / "manifest.json").write_text("{}")
    assert dvc_md5(root / "checkpoint") != named_by_dvc["checkpoint"]
    assert dvc_md5(root / "checkpoint", leave_out={"manifest.json"}) == named_by_dvc["checkpoint"]


def test_a_folder_is_named_by_paths_and_bytes_alone(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / name).write_text(name)
    known = {name: file_md5(tmp_path / name) for name in ("a", "b")}
    assert dvc_md5(tmp_path) == tree_md5(known) == tree_md5(dict(reversed(known.items())))
    (tmp_path / "a").rename(tmp_path / "c")
    assert dvc_md5(tmp_path) != tree_md5(known)
    with pytest.raises(InputError, match="no such file or folder"):
        dvc_md5(tmp_path / "gone")


def test_the_environment_names_versions_without_importing_them() -> None:
    code = (
        "import sys; from isoscope.platform.runs.provenance import environment\n"
        "environment(device='cpu', threads=1, precision='fp32')\n"
        "print(*{'torch', 'transformers', 'mlflow', 'numpy', 'dvc'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
    found = environment(device="cuda (NVIDIA H200)", threads=None, precision="bf16")
    assert found["torch"] == metadata.version("torch")
    assert found["python"] == ".".join(map(str, sys.version_info[:3]))
    assert (found["device"], found["threads"], found["precision"]) == ("cuda (NVIDIA H200)", None, "bf16")
