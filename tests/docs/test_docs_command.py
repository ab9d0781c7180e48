"""`isoscope docs` lists and shows the pages, those of the wheel too (tests/e2e/test_new_project.py)."""

import json

import pytest

from isoscope.base.errors import InputError
from isoscope.platform.cli import begin
from page_blocks import ROOT

PAGES = {file.relative_to(ROOT / "docs").with_suffix("").as_posix() for file in (ROOT / "docs").rglob("*.md")}
EXAMPLES = {f"examples/{file.name}" for file in (ROOT / "docs/examples").glob("*.py")}


def test_the_list_has_every_page_with_its_title(capsys: pytest.CaptureFixture[str]) -> None:
    begin.docs(None, as_json=True)
    titles = json.loads(capsys.readouterr().out)
    assert titles.keys() == PAGES | EXAMPLES
    assert titles["concepts"] == "Concepts"
    assert titles["examples/spread.py"].endswith(".")
    assert '"' not in titles["examples/spread.py"]
    begin.docs(None, as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert {line.split()[0] for line in lines[1:]} == PAGES | EXAMPLES


def test_a_page_is_printed_as_it_is_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    begin.docs("results/spaces", as_json=False)
    assert capsys.readouterr().out.rstrip() == (ROOT / "docs/results/spaces.md").read_text("utf-8").rstrip()


def test_another_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(InputError, match="'tutoral': no such page; did you mean 'tutorial'"):
        begin.docs("tutoral", as_json=False)
