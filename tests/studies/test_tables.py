"""Tables round-trip through the disk."""

import math
from pathlib import Path

import pandas as pd
import pytest

from finished_runs import of_runs, tables_of, write_run
from isoscope.base.errors import InputError
from isoscope.platform.results.study_tables import Tables, read_tables, scores, write_tables

BASELINES = {"TF-IDF, unigrams": {"accuracy": 0.6, "f1": 0.6, "matthews": 0.2, "n": 120}}


def made(root: Path, seeds: int) -> Tables:
    folders = [write_run(root, arm, seed, labels=("NA", "2")) for arm in ("additive", "fft") for seed in range(seeds)]
    return tables_of("fusion", of_runs(folders), BASELINES)


@pytest.mark.parametrize("seeds", [1, 3])
def test_round_trip(tmp_path: Path, seeds: int) -> None:
    before = made(tmp_path, seeds)
    write_tables(tmp_path / "tables", before)
    after = read_tables(tmp_path / "tables")
    for name, value in before._asdict().items():
        if name == "by_name":
            assert set(value) == set(after.by_name)
            for one in value:
                pd.testing.assert_frame_equal(after.by_name[one], value[one], check_dtype=False)
        else:
            assert getattr(after, name) == value
    assert [run.seed for run in after.runs] == [*range(seeds), *range(seeds)]


def test_equal_tables_give_equal_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_tables(tmp_path / "tables" / name, made(tmp_path / name, 3))
    folders = (tmp_path / "tables" / name for name in ("one", "two"))
    one, two = ({file.name: file.read_bytes() for file in folder.rglob("*.*")} for folder in folders)
    assert one == two
    assert sorted(one) == [
        "comparison.json",
        "confusion.csv",
        "curves.csv",
        "layers.csv",
        "metrics.parquet",
        "seeds.parquet",
    ]


def test_a_file_linked_into_a_cache_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "tables"
    folder.mkdir()
    (tmp_path / "cached").write_text("bytes that a cache relies on")
    for name in ("curves.csv", "metrics.parquet"):
        (folder / name).hardlink_to(tmp_path / "cached")
    write_tables(folder, made(tmp_path, 1))
    assert (tmp_path / "cached").read_text() == "bytes that a cache relies on"


def test_scores_by_metric_and_arm(tmp_path: Path) -> None:
    rows = made(tmp_path, 3).comparison
    found = scores(rows)
    assert list(found) == ["accuracy", "f1", "matthews", "balanced_accuracy", "macro_f1"]
    assert list(found["accuracy"]) == ["additive", "fft"]
    assert found["accuracy"]["additive"] == {"mean": rows[0].mean, "sd": rows[0].sd, "n": 3}


def test_a_score_that_is_no_number_at_a_seed_is_kept_and_is_no_mean(tmp_path: Path) -> None:
    """A correlation of equal predictions is not defined."""
    before = made(tmp_path, 4)
    rows = [row._replace(mean=math.nan, sd=math.nan) if row.arm == "fft" else row for row in before.comparison]
    write_tables(tmp_path / "tables", before._replace(comparison=rows))
    after = read_tables(tmp_path / "tables").comparison
    assert [row.arm for row in after if math.isnan(row.mean)] == [row.arm for row in rows if row.arm == "fft"]
    assert {arm for found in scores(after).values() for arm in found} == {"additive"}


def test_a_run_of_another_study_is_refused(tmp_path: Path) -> None:
    runs = of_runs([write_run(tmp_path, "fft", 0, study="other")])
    with pytest.raises(InputError, match="a run of study 'other', not of 'fusion'"):
        tables_of("fusion", runs)


def test_what_is_no_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"comparison\.json: no such file"):
        read_tables(tmp_path)
    write_tables(tmp_path, made(tmp_path, 1))
    (tmp_path / "comparison.json").write_text("{}")
    with pytest.raises(InputError, match="not the tables of a study"):
        read_tables(tmp_path)
