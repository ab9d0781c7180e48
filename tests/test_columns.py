"""The tool that compares the tables of two projects by column."""

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

TOOL = Path(__file__).parent / "golden/columns.py"


def compare(project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run((sys.executable, TOOL, project, *words), capture_output=True, text=True, check=False)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project/reports/study"
    folder.mkdir(parents=True)
    pd.DataFrame({"value": [0.1, 0.2], "lists": [[1.0], [2.0]]}).to_parquet(folder / "table.parquet")
    (folder / "metrics.jsonl").write_text('{"name": "loss", "value": 1, "step": 0}\n', "utf-8")
    (tmp_path / "before.json").write_text(compare(tmp_path / "project").stdout, "utf-8")
    return tmp_path / "project"


def test_equal_tables_are_equal_also_in_a_renamed_folder(project: Path) -> None:
    before = str(project.parent / "before.json")
    assert compare(project, "--against", before).returncode == 0
    (project / "reports/study").rename(project / "reports/other")
    assert compare(project, "--against", before).stdout.startswith("gone: reports/study/metrics:name")
    found = compare(project, "--against", before, "--moved", "reports/study", "reports/other")
    assert (found.returncode, found.stdout) == (0, "5 columns: 5 equal, 0 differ, 0 gone\n0 are new\n")


def test_the_last_bit_of_a_number_is_seen(project: Path) -> None:
    table = pd.read_parquet(project / "reports/study/table.parquet")
    table.loc[1, "value"] = 0.2 + 2**-55
    table.assign(more=0).to_parquet(project / "reports/study/table.parquet")
    found = compare(project, "--against", str(project.parent / "before.json"))
    assert found.returncode == 1
    assert found.stdout.splitlines() == [
        "differs: reports/study/table:value",
        "5 columns: 4 equal, 1 differ, 0 gone",
        "1 are new",
    ]
