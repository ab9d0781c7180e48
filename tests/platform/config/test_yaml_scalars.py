"""YAML as others read and write it: both versions have our values, and DVC changes one value only."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml  # noqa: TID251 (the other reader)
from dvc.utils.hydra import apply_overrides
from hypothesis import example, given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from isoscope.data.new_task import NewTask
from isoscope.data.text_options import TARGETS
from isoscope.data.text_options import WORDS as MASKED
from isoscope.platform.config.new_project import project_files
from isoscope.platform.config.overrides import parse_override
from isoscope.platform.config.profiles import laid_over
from isoscope.platform.config.tree import dump_yaml, flatten, merge, parse_yaml, read_yaml


def test_an_alias_is_a_copy() -> None:
    """One `-S` would else change every place that the anchor is used in."""
    text = "one: &base {axes: {fusion: [additive]}}\ntwo: {<<: *base, seeds: [7]}\nthree: [*base, *base]\n"
    for _ in range(2):  # also of a text that was parsed before
        tree = parse_yaml(text, "here")
        parse_override("two.axes.fusion=[fft]").apply(tree, "here")
        merge(tree["three"][0], {"axes": {"fusion": ["conv2d"]}})
        assert tree["one"] == tree["three"][1] == {"axes": {"fusion": ["additive"]}}
        assert tree["two"] == {"axes": {"fusion": ["fft"]}, "seeds": [7]}


def readings(text: str) -> list[Any]:
    return [yaml.safe_load(text), YAML(typ="safe").load(text), parse_yaml(text, "here")]


def same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and (one == other or (one != one and other != other))


@given(st.floats())
@example(1e-8)
@example(-1e-8)
@example(1e22)
@example(2.5e-7)
@example(1e16)
@example(5e-324)
@example(math.inf)
def test_a_float_is_the_same_float_for_both(value: float) -> None:
    for found in readings(dump_yaml({"value": value, "list": [value]})):
        assert same(found["value"], value)
        assert same(found["list"][0], value)


WORDS = "no NO yes on Off y n true null ~ 1:30 190:20:30 12:30:45.5 1e-8 1e8 0o17 012 0x1F 1_000 .5 +1 = << 2026-11-27"


@pytest.mark.parametrize("value", [*WORDS.split(), "", " ", "123e45", "-.inf", "a: b", "#", "é"])
def test_a_text_is_the_same_text_for_both_as_value_and_as_name(value: str) -> None:
    for found in readings(dump_yaml({"labels": [value], value: 1})):
        assert found == {"labels": [value], value: 1}


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=12))
def test_any_printable_text_is_read_back(value: str) -> None:
    for found in readings(dump_yaml({"value": value})):
        assert found == {"value": value}


def test_a_value_that_a_profile_changes_is_the_same_for_both() -> None:
    text = laid_over("training:\n  adam_epsilon: 0.1  # why\n  name: here\n", {"training": {"adam_epsilon": 1e-8}})
    assert "# why" in text
    for found in readings(text):
        assert found == {"training": {"adam_epsilon": 1e-8, "name": "here"}}


def test_the_writer_of_ruamel_itself_is_left_alone() -> None:
    from ruamel.yaml.representer import RoundTripRepresenter, SafeRepresenter

    for one in (SafeRepresenter, RoundTripRepresenter):
        assert one.yaml_representers[float].__module__ == "ruamel.yaml.representer"


ROOT = Path(__file__).parents[3]
PARAMS = (ROOT / "params.yaml").read_text("utf-8")
TASKS = (
    NewTask("mine", {"kind": "table", "path": "texts/mine.csv"}, "mine.csv", TARGETS["label"], "stars", 1000),
    NewTask("mine", {"kind": "lines", "path": "texts/mine.txt"}, "mine.txt", MASKED, None, 100),
)


def written(text: str, folder: Path, *overrides: str) -> str:
    """A file after DVC has applied `-S` to it."""
    path = folder / "params.yaml"
    path.write_text(text, "utf-8")
    apply_overrides(path, list(overrides))
    return path.read_text("utf-8")


def targets() -> Iterator[tuple[str, str]]:
    """What `-S` may write: params.yaml, also under a profile, overlays, and the files of new projects."""
    for path in (ROOT / "params.yaml", *sorted((ROOT / "variants").glob("*/*.yaml"))):
        yield path.relative_to(ROOT).as_posix(), path.read_text("utf-8")
    for path in sorted((ROOT / "profiles").rglob("*.yaml")):
        yield f"under {path.stem}", laid_over(PARAMS, read_yaml(ROOT, path.relative_to(ROOT)))


def test_dvc_writes_each_file_as_it_is(tmp_path: Path) -> None:
    changed = [name for name, text in targets() if written(text, tmp_path) != text]
    assert not changed, "rewrite with: isoscope.platform.config.profiles.as_dvc_writes"


@pytest.mark.parametrize("task", TASKS, ids=["labelled", "language"])
def test_dvc_writes_the_files_of_a_new_project_as_they_are(tmp_path: Path, task: NewTask) -> None:
    files = {
        name: text if isinstance(text, str) else text.read_text("utf-8")
        for name, text in project_files("mine", task, None).items()
        if name == "params.yaml" or name.startswith("variants/")
    }
    assert len(files) > 10
    assert not [name for name, text in files.items() if written(text, tmp_path) != text]
    profiles = [text for name, text in project_files("mine", task, None).items() if name.startswith("profiles/")]
    for profile in map(str, profiles):
        text = laid_over(str(files["params.yaml"]), parse_yaml(profile, "profile"))
        assert written(text, tmp_path) == text


def test_one_number_is_one_line(tmp_path: Path) -> None:
    """Of each kind of value, at each depth: numbers, texts, truth values, nulls and lists."""
    others = {int: 3, float: 0.125, bool: False, str: "other", type(None): 7}
    values = flatten(parse_yaml(PARAMS, "params.yaml"))
    changed = {
        name: new
        for name, value in values.items()  # without names with dots, and texts of several lines
        if not (name.startswith(("search.", "comparisons")) or ".about" in name)
        and (new := others.get(type(value))) not in (None, value)
    }
    after = written(PARAMS, tmp_path, *(f"{name}={new}" for name, new in changed.items())).splitlines()
    pairs = zip(PARAMS.splitlines(), after, strict=True)
    assert sum(before != now for before, now in pairs) == len(changed) > 100
