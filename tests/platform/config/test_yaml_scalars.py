"""Files that we write have the same values for a reader of YAML 1.1 (PyYAML) and of YAML 1.2 (ruamel)."""

import math
from typing import Any

import pytest
import yaml  # noqa: TID251 (the other reader)
from hypothesis import example, given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from isoscope.platform.config.profiles import laid_over
from isoscope.platform.config.tree import dump_yaml, parse_yaml


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
