"""dvc.yaml and MLproject agree with the code of the stages and with the files that they read."""

import importlib
import inspect
import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from isoscope.base import code_closure, paths
from isoscope.platform.config.base import Section
from isoscope.platform.config.comparing import Comparison
from isoscope.platform.config.kinds import json_schema
from isoscope.platform.config.load import CELL_SECTIONS, Configuration
from isoscope.platform.config.project import Cell, Root, Study
from isoscope.platform.config.tree import read_yaml
from isoscope.platform.stages.train import SECTIONS, CellJob

ROOT = Path(__file__).parents[2]
STAGES = {name: stage.get("do", stage) for name, stage in read_yaml(ROOT, Path("dvc.yaml"))["stages"].items()}
TYPES = {name: field.annotation for name, field in (Root.model_fields | Cell.model_fields).items()}


ONE = {"compare": "analyse"}
"""A stage whose function has the name of another: they call one."""


def function(verb: str):
    verb = ONE.get(verb, verb)
    return getattr(importlib.import_module(f"isoscope.platform.stages.{verb}"), verb)


def declared(name: str) -> set[str]:
    return {section.partition(".")[0] for section in STAGES[name]["params"]}


@pytest.mark.parametrize("name", STAGES)
def test_a_stage_declares_the_sections_its_function_takes(name: str) -> None:
    """A used but undeclared section changes numbers unnoticed; a declared but unused section causes needless runs."""
    taken = set()
    for parameter in inspect.signature(function(name), eval_str=True).parameters.values():
        kind = parameter.annotation
        sections = {section for section, annotation in TYPES.items() if kind == annotation or section == parameter.name}
        if inspect.isclass(kind) and issubclass(kind, Section) and not sections:
            sections = {"studies"}  # an entry of the mapping
        if kind == Study | Comparison:
            sections = {"comparisons", "studies"} if name == "compare" else {"studies"}
        if kind is CellJob:
            sections = {*SECTIONS}
        if kind is Configuration:
            sections = {"studies", *CELL_SECTIONS} - {"data"}  # all of it but what `prepare` has made
        taken |= sections
    of_plugins = {*CELL_SECTIONS, "extraction", "measures"}
    viewed = name in ("analyse", "compare", "report")  # views and kinds of plugins
    plugins = {"plugins"} if viewed or declared(name) & of_plugins else set()
    cells = {"studies"} if name in ("train", "states") else set()  # whose arms and seeds the command takes
    assert declared(name) == taken | plugins | cells


@pytest.mark.parametrize("name", STAGES)
def test_a_stage_depends_on_every_source_that_can_change_its_numbers(name: str) -> None:
    needed = {*code_closure.closure(name), *code_closure.titles(name)}
    closure = {file.relative_to(ROOT).as_posix() for file in needed}
    sources = [dependency for dependency in STAGES[name]["deps"] if dependency.startswith("src/")]
    uncovered = {file for file in closure if not any(file == one or file.startswith(f"{one}/") for one in sources)}
    assert not uncovered
    idle = {one for one in sources if not any(file == one or file.startswith(f"{one}/") for file in closure)}
    assert not idle, "a dependency that the stage cannot import"


@pytest.mark.parametrize("stage", ["train", "extract", "measure"])
def test_no_figure_or_caption_is_part_of_a_measurements_digest(stage: str) -> None:
    shown = {file for file in code_closure.closure(stage) if {"figures", "studies", "report"} & set(file.parts)}
    assert not shown
    assert {file for file in code_closure.closure("analyse") if "fusion" in file.parts}


def test_the_inert_sources_are_the_named_ones_and_exist() -> None:
    base = "atomic_files built_in code_closure entry environment errors kind metric parquet paths processes"
    base = f"{base} registry symlinks view"
    platform = "cli config executor mirror runs"
    named = {*(f"base/{name}.py" for name in base.split()), *(f"platform/{name}" for name in platform.split())}
    assert {*code_closure.INERT} == {"__init__.py", "plugins.py", *named}
    for name in code_closure.INERT:
        assert (code_closure.PACKAGE / name).exists()


def test_a_comment_changes_no_code_version_and_a_number_does(tmp_path: Path) -> None:
    plain = 'def f(x):\n    """Doc."""\n    return x + 1\n'
    assert code_closure.stripped(plain) == code_closure.stripped("# why\ndef f(x):\n    return x + 1  # because\n")
    bounded = plain.replace("(x)", "(x: Annotated[int, Ge(0), 'a number'])")
    assert code_closure.stripped(plain) == code_closure.stripped(bounded), "bounds and descriptions of options"
    assert code_closure.stripped(plain) != code_closure.stripped(plain.replace("1", "2"))


def test_what_stages_write_stands_in_paths() -> None:
    """The templates of dvc.yaml, filled in, are the paths that the code makes."""
    outs = {
        name: [next(iter(out)) if isinstance(out, dict) else out for out in STAGES[name]["outs"]] for name in STAGES
    }
    assert outs["prepare"] == [paths.processed("T").as_posix().replace("T", "${item}")]
    for stage, places in (("train", [paths.trained]), ("states", [paths.extracted, paths.measured])):
        assert filled(outs[stage]) == [place("fusion", "A", 7).parents[1].as_posix() for place in places]
    for stage in ("analyse", "compare"):
        assert all(Path(out).parent == paths.analysed("fusion") for out in filled(outs[stage]))
        assert (paths.analysed("fusion") / paths.TABLES).as_posix() in filled(outs[stage])
        assert "reports/parts/${key}/figures" in [next(iter(plot)) for plot in STAGES[stage]["plots"]]
    assert outs["report"] == [paths.INDEX.as_posix(), paths.LARGE_TABLES.as_posix()]


def filled(outs: list[str]) -> list[str]:
    return [out.replace("${key}", "fusion") for out in outs]


def test_a_study_is_named_in_no_stage() -> None:
    """Another study, on another task, is an entry of params.yaml."""
    lines = (ROOT / "dvc.yaml").read_text("utf-8").splitlines()
    text = "\n".join(line for line in lines if not line.lstrip().startswith("desc:"))  # "feature dynamics" is no study
    text = re.sub(r"src/[\w/.]+", "", text)  # nor is a source
    given = read_yaml(ROOT, Path("params.yaml"))
    assert len(lines) <= 110
    for name in (*given["studies"], *given["comparisons"], *given["tasks"]):
        assert not re.search(rf"\b{name}\b", text), name


def test_git_keeps_metrics_and_figures_and_dvc_the_rest() -> None:
    for stage in STAGES.values():
        for kind in ("metrics", "plots"):
            assert all(options["cache"] is False for out in stage.get(kind, ()) for options in out.values())
        options = [option for out in stage["outs"] if isinstance(out, dict) for option in out.values()]
        assert all(option == {"persist": True} for option in options), (
            "outs are cached: 'cache: false' disables the run cache"
        )


def test_the_committed_schema_is_the_configuration() -> None:
    assert json.loads((ROOT / "params.schema.json").read_text()) == json_schema(), (
        "run: isoscope schema > params.schema.json"
    )


def test_no_source_file_is_longer_than_contributors_are_told() -> None:
    lengths = {file: len(file.read_text("utf-8").splitlines()) for file in (ROOT / "src").rglob("*.py")}
    assert not {file.name: number for file, number in lengths.items() if number > 300}


def test_a_module_that_a_command_names_as_text_is_there() -> None:
    texts = "".join(file.read_text("utf-8") for file in (ROOT / "src/isoscope").rglob("*.py"))
    named = {
        f"isoscope.{name.removeprefix('isoscope.')}"
        for name in re.findall(r"""(?<![\w.])load\("([\w.]+\.[\w.]+)"\)""", texts)
    }
    assert len(named) > 20
    assert [name for name in sorted(named) if find_spec(name) is None] == []


def test_readme_and_decisions_are_no_longer_than_contributors_are_told() -> None:
    told = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    most = int(re.findall(r"the file has at most (\d+)", told)[0])
    assert len(re.findall(r"^\*\*20", (ROOT / "DECISIONS.md").read_text("utf-8"), re.MULTILINE)) <= most
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 100


def test_parameters_have_no_default_but_an_empty_one() -> None:
    """A number in MLproject would duplicate params.yaml."""
    for name, entry in read_yaml(ROOT, Path("MLproject"))["entry_points"].items():
        for parameter, kind in entry.get("parameters", {}).items():
            default = kind.get("default") if isinstance(kind, dict) else None
            assert default in (None, ""), f"{name}: {parameter}"


@pytest.mark.parametrize(
    "settings, code, words",
    [
        ("", 0, "agree"),
        ("training.epochs=2 training.batch_size=16", 0, "agree"),
        ("training.epochs=2 training.batch_sise=16", 2, "training.batch_sise"),
        ("report.title=Order of words and sums", 0, "agree"),
    ],
    ids=["none", "two", "second misspelt", "a text with spaces"],
)
def test_one_string_carries_several_settings(settings: str, code: int, words: str) -> None:
    command = [sys.executable, "-m", "isoscope", "check", "-S", settings]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == code, done.stderr
    assert words in done.stdout + done.stderr
