"""The command line: help, one-line errors, exit codes."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import pytest
import typer
from annotated_types import Ge

from isoscope import plugins
from isoscope.base import paths
from isoscope.base.atomic_files import seal
from isoscope.base.errors import InputError
from isoscope.base.registry import Registry
from isoscope.platform.cli import app, options
from isoscope.platform.cli.options import HEADINGS, PLUGIN_HELP, Commands, declared
from isoscope.platform.cli.out_folders import check_free, replaceable

ROOT = Path(__file__).parents[1]


def isoscope(*words: str, cwd: Path = ROOT, code: int = 0) -> str:
    """Return what a command says: on stdout, or the one line of an error on stderr."""
    command = [sys.executable, "-m", "isoscope", *words]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert not code or (done.stdout == "" and done.stderr.count("\n") == 1 and done.stderr.startswith("isoscope: "))
    return done.stderr if code else done.stdout


def test_every_command_explains_itself_with_an_example() -> None:
    for command in app.registered_commands:
        assert command.callback is not None
        if command.hidden:
            continue
        assert "Example: isoscope" in (command.callback.__doc__ or ""), command.callback.__name__


def test_commands_are_grouped_by_what_they_are_for() -> None:
    """Every command has a heading; headings stand in their order, and the commands of the search below its own."""
    shown = isoscope("--help")
    assert "isoscope repro" in shown
    places = [shown.index(f"\n{heading}:\n") for heading in HEADINGS]
    assert places == sorted(places)
    assert "\nCommands:" not in shown
    assert shown.count("\n  train ") == shown.count("\n  search ") == 1
    search = isoscope("search", "--help")
    assert "\nCommands:\n  run " in search
    assert not re.search(r"^  trial ", shown + search, flags=re.M), "hidden"


def test_help_imports_no_library_but_the_parser() -> None:
    """What one command imports at the top of its module, every command waits for: pydantic takes longer than help."""
    libraries = {
        "mlflow",
        "dvc",
        "matplotlib",
        "numpy",
        "optuna",
        "pandas",
        "pydantic",
        "rich",
        "ruamel",
        "scipy",
        "torch",
    }
    code = f"""import sys; sys.argv = ["isoscope", "--help"]
from isoscope.platform.cli import main
try: main()
finally: print(*sorted({libraries!r} & sys.modules.keys()), file=sys.stderr)"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.split() == []
    assert done.stdout


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ("params.yaml", "dvc.yaml"):
        (tmp_path / "project" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "project" / name).write_text((ROOT / name).read_text())
    return tmp_path / "project"


@pytest.mark.parametrize(
    "out, expected",
    [
        (".git", "belongs to git"),
        (".git/hooks", "belongs to git"),
        ("models/.GIT/x", "belongs to git"),
        ("sub/../.git/x", "belongs to git"),
        ("link/x", "belongs to git"),
        (".dvc/cache", "is in .dvc, a hidden folder of a tool"),
        (".isoscope/runs/x", "is in .isoscope"),
        (".venv/x", "is in .venv"),
        ("src", "is in src, among the project's sources"),
        ("src/isoscope/x", "is in src"),
        ("tests/x", "is in tests"),
        ("variants/fusion/x", "is in variants"),
        ("plugins/x", "is in plugins"),
        ("texts/x", "is in texts"),
        ("mlartifacts/x", "belongs to MLflow"),
        ("mlflow.db", "belongs to MLflow"),
        ("params.yaml", "is a file"),
        ("data", "overlaps data/processed/sentiment, which the pipeline writes (dvc.yaml)"),
        ("data/processed", "overlaps data/processed/"),
        ("data/processed/sentiment", "overlaps data/processed/"),
        ("data/processed/sentiment/deep/x", "overlaps data/processed/"),
        ("data/measures/fusion/additive/x", "overlaps data/measures/fusion"),
        ("models/isotropy/additive-none/seed-0/x", "overlaps models/isotropy"),
        ("reports", "overlaps reports/"),
        ("reports/parts/fusion/tables/x", "overlaps reports/parts/fusion/tables"),
        ("reports/parts/fusion/metrics.json", "overlaps reports/parts/fusion/metrics.json"),
        ("reports/index.html/x", "overlaps reports/index.html"),
        ("reports/search/x", "overlaps reports/search"),
    ],
)
def test_what_is_not_the_users_to_give_is_no_output(
    project: Path, out: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / ".git").mkdir()
    (project / "link").symlink_to(".git")
    monkeypatch.chdir(project)
    for place in (Path(out), project / out):
        with pytest.raises(InputError) as caught:
            check_free(place, such_as="geometry")
        assert str(caught.value).startswith(f"--out {place}: {expected}")
        assert str(caught.value).endswith("; give a separate folder, such as geometry")


@pytest.mark.parametrize(
    "out",
    [
        "models/by-hand/x",
        "geometry",
        "reports/geometry",
        "data/mine",
        "deep/er",
        "models/fusion_by_hand",
        "../x",
        "srcs",
    ],
)
def test_any_other_folder_is(project: Path, out: str) -> None:
    check_free(project / out, such_as="geometry")
    with pytest.raises(InputError, match="belongs to git"):  # outside a project too
        check_free(project.parent / "elsewhere/.git/x", such_as="geometry")


@pytest.mark.parametrize(
    "file, text",
    [
        *(("params.yaml", text) for text in ("tasks: 5\n", "studies: true\n")),
        *(("dvc.yaml", text) for text in ("stages: 5\n", "stages: {a: 5}\n", "stages: {a: {do: 5, outs: 5}}\n")),
        ("dvc.yaml", "stages: {a: {cmd: x, outs: 5}}\n"),
    ],
)
def test_of_a_malformed_project_nothing_is_known_to_be_free(project: Path, file: str, text: str) -> None:
    (project / file).write_text(text)
    with pytest.raises(InputError, match="is malformed, so its outputs are not known; isoscope check lists the faults"):
        check_free(project / "geometry", such_as="geometry")


def test_what_a_run_wrote_and_nothing_else_may_be_replaced(project: Path) -> None:
    """Whatever its objective and observers are called, also those of plugins."""
    digest, there = "d" * 64, paths.Project(project, project)
    for folder in (place := project / "models/by-hand/x", stored := there.runs / digest / "output"):
        (folder / "checkpoints/epoch-1").mkdir(parents=True)
        for name in ("metrics.jsonl", "norms.csv", "checkpoints/epoch-1/config.json"):
            (folder / name).write_text("{}", "utf-8")
    seal(stored, of=digest)
    (place / "config.yaml").write_text(f"digest: {digest}\n", "utf-8")
    assert replaceable(place, there, [], of_run=True) == place
    (place / "checkpoints/epoch-1/README.md").touch()  # the card, which publishing adds
    assert replaceable(place, there, [], of_run=True) == place
    for notes in (place / "notes.csv", place / "checkpoints/epoch-1/notes.txt"):
        notes.touch()
        with pytest.raises(InputError, match="holds files that are not an earlier result; give a new folder"):
            replaceable(place, there, [], of_run=True)
        notes.unlink()
    shutil.rmtree(stored)  # isoscope rm: nothing here knows any more what the run wrote
    with pytest.raises(InputError, match="holds files that are not an earlier result"):
        replaceable(place, there, [], of_run=True)
    (place / "objective.json").touch()
    assert replaceable(place, there, [], of_run=True) == place


def test_a_stdout_of_ascii_gets_a_question_mark_for_what_it_lacks() -> None:
    command = [sys.executable, "-m", "isoscope", "docs", "concepts"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, env=environment, capture_output=True, check=True)
    text = (ROOT / "docs/concepts.md").read_text("utf-8").rstrip() + "\n"
    assert not text.isascii()
    assert done.stdout.decode("ascii") == text.encode("ascii", "replace").decode()


def test_both_commands_that_write_where_they_are_told_look_first(project: Path) -> None:
    (project / "texts").mkdir()
    (project / "texts/t.txt").write_text("one\n")
    shutil.copytree(ROOT / "variants", project / "variants")
    for words in (
        ("train", "fusion", "additive", "--seed", "0", "--out", "texts/out"),
        ("geometry", ".", "--text", "texts/t.txt", "--out", "texts/out"),
    ):
        said = isoscope(*words, cwd=project, code=2)
        assert "--out texts/out: is in texts, among the project's sources" in said


def test_no_file_of_the_working_folder_passes_for_a_library(tmp_path: Path) -> None:
    """Started by a launcher as `python -m isoscope`, which puts that folder first; its own processes by `python -P`."""
    for name in ("random", "torch", "json", "typer", "pydantic", "numpy", "mlflow"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('shadowed')\n")
    control = subprocess.run([sys.executable, "-c", "import random"], cwd=tmp_path, capture_output=True, check=False)
    assert b"shadowed" in control.stderr
    assert "isoscope parameters" in isoscope("schema", cwd=tmp_path)
    for path in (ROOT / "src").rglob("*.py"):
        assert 'sys.executable, "-m"' not in path.read_text("utf-8"), path


@pytest.mark.parametrize(
    "words, expected",
    [
        (["train", "fusio", "additive", "--seed", "0"], "studies.fusio: no such study; did you mean 'fusion'?"),
        (["train", "fusion", "aditive", "--seed", "0"], "no arm 'aditive'; did you mean 'additive'?"),
        (["states", "fusion", "additive", "--seed", "77"], "--seed 77: not among studies.fusion.seeds [0, 1, 2]"),
        (["prepare", "sentimen"], "no task 'sentimen'; did you mean 'sentiment'?"),
        (
            [
                *["train", "fusion", "additive", "--seed", "0", "-S"],
                "variants/fusion/conv2d.yaml:model.fusion.kernel_size=[5,x]",
            ],
            "kernel_size",
        ),
        (["check", "-S", "training.epochs=0"], "training.epochs: expected greater than or equal to 1, got 0"),
        (["profile", "minilmm"], "profiles/minilmm.yaml: no such file; did you mean 'minilm'?"),
        (["profile", "../params"], "profile '../params': expected letters"),
        (
            ["train", "fusion", "additive", "--seed", "0", "--out", "."],
            "--out .: holds files that are not an earlier result",
        ),
        (
            ["train", "fusion", "additive", "--seed", "0", "--out", "/etc/foo"],
            "--out /etc/foo: is outside the project",
        ),
        (["train", "fusion", "additive", "--seed", "0", "--out", "../x"], "--out ../x: is outside the project"),
        (
            ["train", "fusion", "additive", "--seed", "7", "--out", "models/fusion/additive/seed-0"],
            "is a folder of the pipeline",
        ),
        (["check", "-S", "studies.fusion.seeds=[0, 1, 1]"], "studies.fusion: seeds [0, 1, 1] contain a duplicate"),
        (["profile"], "give a name or --reset"),
        (["train", "fusion", "additive", "--seed", "x"], "--seed"),
        (["trian"], "No such command 'trian'."),
        (["ui", "-S", "training.epochs=2"], "-S"),
        (["check", "--plugin", "nowhere.py"], "no such file"),
        (["new", "x", "--from", "a.csv", "--column", "premise", "--column", "hypothesis"], "--column: given 2 times"),
        (["new", "x", "--from", "a.csv", "--label", "a", "--label", "b"], "--label: given 2 times"),
        (["train", "fusion", "additive", "--seed", "0", "--seed=1"], "--seed: given 2 times"),
        (["search", "run", "--workers", "1", "--workers", "2", "--workers", "3"], "--workers: given 3 times"),
        (["check", "-S", "training.epochs=2", "-S", "training.epochs=3"], "-S training.epochs: given 2 times"),
        (
            ["check", "-S", "training.epochs=2 training.batch_size=8 training.epochs=3"],
            "-S training.epochs: given 2 times",
        ),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_2(words: list[str], expected: str) -> None:
    assert expected in isoscope(*words, code=2)


def test_outside_a_project_it_says_where_to_go(tmp_path: Path) -> None:
    assert "change to an isoscope project" in isoscope("check", cwd=tmp_path, code=2)


def test_in_a_removed_folder_it_is_one_line(tmp_path: Path) -> None:
    code = f"cd {tmp_path} && mkdir gone && cd gone && rmdir ../gone && {sys.executable} -P -m isoscope --version"
    done = subprocess.run(["sh", "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (
        2,
        "isoscope: the working folder was removed; change to another folder\n",
    )


def test_check_speaks_to_people_and_machines() -> None:
    """From a folder below the project, too; different settings may be given."""
    given = ("check", "-S", "training.epochs=2", "-S", "training.batch_size=8")
    assert "dvc.yaml and MLproject agree" in isoscope(*given, cwd=ROOT / "docs")
    found = json.loads(isoscope("check", "--json"))
    assert found["profiles"] == len(list((ROOT / "profiles").rglob("*.yaml")))


def test_check_prints_twenty_faults_and_how_many_more(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = [word for number in range(30) for word in ("-S", f"section_{number}.name=1")]
    assert app(["check", *wrong, "--json"], standalone_mode=False) == 2
    said = capsys.readouterr()
    lines = said.err.splitlines()
    assert len(lines) == 21
    assert lines[-1] == "isoscope: and 10 more faults; --json prints all"
    assert len(json.loads(said.out)["faults"]) == 30


@pytest.mark.parametrize("words", [["--help"], ["gc", "--help"], ["search", "status", "--help"]])
def test_help_names_the_command_however_it_was_started(words: list[str]) -> None:
    assert isoscope(*words).strip().startswith(" ".join(["Usage: isoscope", *words[:-1]]))


@pytest.mark.parametrize("kind", ["fusions", "objectives", "penalties", "observers", "data sets", "measures", "views"])
def test_the_option_plugin_names_every_kind(kind: str) -> None:
    """Each registry of `isoscope.plugins` is a kind of plugin."""
    assert kind in PLUGIN_HELP
    registries = [name for name, one in vars(plugins).items() if isinstance(one, Registry)]
    assert sorted(registries) == ["DATASETS", "FUSIONS", "MEASURES", "OBJECTIVES", "OBSERVERS", "PENALTIES", "VIEWS"]


def _options() -> list[tuple[str, str, str]]:
    """Return path of the command, first and last name of each option that takes one value or none."""
    top = typer.main.get_command(app)
    search = top.commands["search"]  # type: ignore[attr-defined]
    found = [(f"search {name}", command) for name, command in search.commands.items()]
    found += [(name, command) for name, command in top.commands.items() if name != "search"]  # type: ignore[attr-defined]
    return [
        (path, option.opts[0], (option.secondary_opts or option.opts)[-1])
        for path, command in found
        for option in command.params
        if option.param_type_name == "option" and not option.multiple
    ]


def test_no_option_of_one_value_keeps_the_last_of_two_in_silence() -> None:
    assert {("new", "--column", "--column"), ("new", "--label", "--label")} <= {*_options()}
    for path, first, second in _options():
        command = typer.main.get_command(app)
        for name in path.split():
            command = command.commands[name]  # type: ignore[attr-defined]
        option = next(one for one in command.params if first in one.opts)
        values = () if option.is_flag else ("1",) * option.nargs  # type: ignore[attr-defined]
        words = [first, *values, second, *values]
        with pytest.raises(InputError, match=f"^{first}.*: given 2 times; give it once"):
            command.make_context(f"isoscope {path}", words)


class Options(NamedTuple):
    names: Annotated[tuple[str, ...], "--name", ("a", "b"), "Names"] = ("a",)
    number: Annotated[int | None, Ge(2), "Number [default: all]"] = None
    inner: int = 1


@pytest.mark.parametrize(
    "words, given",
    [
        ([], {"names": [], "number": None}),
        (["--name", "b", "--name", "", "--number", "2"], {"names": ["b", ""], "number": 2}),
    ],
)
def test_what_the_science_declares_are_options_of_a_command(
    words: list[str], given: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    own = Commands()

    @options.command(None, of=own, options=declared(Options))
    def made(**given: Any) -> tuple[dict[str, Any], str]:
        return given, "made"

    own([*words, "--json"], standalone_mode=False)
    assert json.loads(capsys.readouterr().out) == given
    with pytest.raises(InputError, match=r"^--name c: expected a, b$"):
        own(["--name", "c"], standalone_mode=False)
    with pytest.raises(typer.TyperException):
        own(["--number", "1"], standalone_mode=False)


def test_a_number_that_is_not_finite_is_valid_json(capsys: pytest.CaptureFixture[str]) -> None:
    """As a plugin's metric may be: JSON has no NaN."""
    options.say({"metrics": {"test/mine": float("nan"), "test/loss": 0.5}}, True, "")

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    found = json.loads(capsys.readouterr().out, parse_constant=refuse)
    assert found == {"metrics": {"test/mine": "NaN", "test/loss": 0.5}}
