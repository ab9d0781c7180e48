"""The wheel in an environment without the checkout: `isoscope new`, and the pipeline in the project that it makes."""

import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import NamedTuple

import pytest

from isoscope.platform.stages.new import new
from pipeline_project import BINARIES, ROOT, Done, copy_checkout, sentences

pytestmark = pytest.mark.slow


class Environment(NamedTuple):
    """A virtual environment with isoscope from its wheel; `project`: a project that it has made."""

    folder: Path
    project: Path

    @property
    def package(self) -> Path:
        (found,) = self.folder.glob("lib/python*/site-packages/isoscope")
        return found

    def run(self, *command: str, cwd: Path | None = None, code: int = 0) -> Done:
        """Run a command of this environment (or of the libraries) in the project, as a user's shell does."""
        path = os.pathsep.join([str(self.folder / "bin"), str(BINARIES), os.environ["PATH"]])
        authors = {f"GIT_{role}_{part}": "a@b" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")}
        env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | authors
        done = subprocess.run(
            command, cwd=cwd or self.project, env=env | {"PATH": path}, capture_output=True, text=True, check=False
        )
        assert done.returncode == code, f"{' '.join(command)}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return Done(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Install the wheel without its libraries, which come from the environment of the tests."""
    base = tmp_path_factory.mktemp("wheel")
    found = Environment(base / "environment", base / "my-study")
    copy_checkout(base / "checkout")
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    offline = ("--no-deps", "--no-index")
    for command in (
        (*pip, "wheel", *offline, "--no-build-isolation", "--wheel-dir", ".", "./checkout"),
        (sys.executable, "-m", "venv", "--without-pip", str(found.folder)),
    ):
        found.run(*command, cwd=base)
    (wheel,) = base.glob("*.whl")
    found.run(*pip, "--python", str(found.folder / "bin/python"), "install", *offline, str(wheel), cwd=base)
    # Of a folder in a .pth file no .pth file is read: the editable isoscope stays out.
    (found.package.parent / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n", "utf-8")
    (base / "auth.jsonl").write_text(sentences(), "utf-8")  # a name as of a secret, whose hash is none
    said = found.run("isoscope", "new", "my-study", "--from", "auth.jsonl", "--label", "class", cwd=base).out
    assert "the task 'auth'" in said
    assert "  cd my-study\n  isoscope repro" in said
    return found


def test_it_is_the_wheel_that_runs_and_its_project_is_that_of_the_checkout(
    environment: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = environment.run("python", "-c", "import torch, isoscope; print(isoscope.__file__)").out.strip()
    assert file == str(environment.package / "__init__.py")
    monkeypatch.chdir(environment.project.parent)
    new(tmp_path / "my-study", text="auth.jsonl", label="class")
    one, two = (
        {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        for folder in (environment.project, tmp_path / "my-study")
    )
    of_git = re.compile(r"\.git/")
    assert not [
        str(name) for name in {*one, *two} if one.get(name) != two.get(name) and not of_git.match(name.as_posix())
    ]


def test_its_commands_need_no_checkout(environment: Environment) -> None:
    assert re.fullmatch(r"[\d.]+\n", environment.run("isoscope", "--version").out)
    assert environment.run("isoscope", "schema").out == (environment.project / "params.schema.json").read_text("utf-8")
    said = environment.run("isoscope", "check").out
    assert re.fullmatch(r"3 tasks and arms, \d+ profiles, dvc\.yaml and code\.yaml agree\n", said)
    assert environment.run("git", "status", "--porcelain").out == ""
    environment.run("isoscope", "profile", "minilm")
    environment.run("isoscope", "check")
    environment.run("isoscope", "profile", "--reset")
    assert environment.run("git", "status", "--porcelain").out == ""
    assert environment.run("isoscope", "docs", "new").out.startswith("# A project of your own\n")
    example = environment.run("isoscope", "docs", "examples/product.py").out
    assert example == (ROOT / "docs/examples/product.py").read_text("utf-8")
    refused = environment.run("isoscope", "new", ".", code=2)
    assert refused.err.count("\n") == 1
    assert "give a new or empty folder" in refused.err


def test_dvc_sees_a_change_of_the_installed_code(environment: Environment) -> None:
    params = environment.project / "params.yaml"
    short = re.sub(r"^  epochs: \d+", "  epochs: 1", params.read_text("utf-8"), flags=re.M)
    one = re.sub(r"^  names:\n(?:  - \w+\n)+", "  names: [anisotropy]\n", short, flags=re.M)
    params.write_text(one.replace("    - 0\n    - 1\n    - 2\n", "    - 0\n    - 1\n"), "utf-8")
    target = "analyse@first"
    done = environment.run("isoscope", "repro", target)
    assert done.ran == ["prepare@auth", "train@first", "states@first", target]
    assert len([*environment.project.glob("models/first/*/seed-*/metrics.jsonl")]) == 4
    assert environment.run("dvc", "repro", target).ran == []

    module = environment.package / "platform/stages/analyse.py"
    source = module.read_text("utf-8")
    module.write_text(source + "# a comment\n", "utf-8")
    environment.run("isoscope", "check")
    module.write_text(source + "CHANGED = True\n", "utf-8")
    stale = environment.run("isoscope", "check", code=2).err
    assert re.fullmatch(
        r"isoscope: code\.yaml: not of the installed isoscope .*: analyse, compare; .*: isoscope repro\n", stale
    )
    refused = environment.run("dvc", "repro", "--force", "--single-item", target, code=255)
    assert "not of the installed isoscope" in refused.err, "dvc.lock would name other code than that which ran"
    assert environment.run("isoscope", "repro", target).ran == [target]
    environment.run("isoscope", "check")
