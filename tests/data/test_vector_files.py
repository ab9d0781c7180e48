"""Files of vectors: every format gives the same rows, also part by part, and a fault is one line with its place."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.numpy import save_file
from safetensors.torch import save_file as save_tensors

from isoscope.base.errors import InputError
from isoscope.data import vector_files
from isoscope.data.given_rows import file_digest, of_array
from isoscope.data.vector_files import named, open_vectors

POINTS = np.random.default_rng(0).normal(size=(50, 7)).astype(np.float32)
WANTED = np.array([40, 3, 0, 49, 3])
COLUMNS = list("abcdefg")


def write(folder: Path, points: Any = POINTS) -> dict[str, str]:
    """The same vectors in files of every form; form → file as a user names it."""
    table = pd.DataFrame(points, columns=COLUMNS)
    lists = [row.tolist() for row in points]
    np.save(folder / "a.npy", points)
    np.save(folder / "transposed.npy", np.asfortranarray(points))
    save_file({"v": np.ascontiguousarray(points), "bias": np.ones(3, np.float32)}, folder / "a.safetensors")
    save_file({"v": np.ascontiguousarray(points), "w": np.ones((2, 2), np.float32)}, folder / "two.safetensors")
    fixed = pa.FixedSizeListArray.from_arrays(pa.array(np.ravel(points)), 7)
    pq.write_table(pa.table({"v": fixed, "id": range(len(points))}), folder / "fixed.parquet")
    pq.write_table(pa.table({"v": lists, "tags": [["x"]] * len(points)}), folder / "lists.parquet")
    table.assign(id=range(len(points)), name="x").to_parquet(folder / "columns.parquet")
    table.assign(id=range(len(points)), name="x").to_csv(folder / "a.csv", index=False)
    names = ("a.npy", "transposed.npy", "a.safetensors", "two.safetensors:v", "fixed.parquet", "lists.parquet")
    return {name: str(folder / name) for name in (*names, "lists.parquet:v", "columns.parquet", "a.csv")}


def opened(text: str) -> Any:
    found = named(text)
    assert found is not None
    return open_vectors(*found, {"id"})


@pytest.mark.parametrize("part", [1, 1 << 26])
def test_every_format_gives_the_same_rows_in_any_order_and_by_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    monkeypatch.setattr(vector_files, "PART", part)
    for name, file in write(tmp_path).items():
        rows = opened(file)
        assert (rows.rows, rows.width) == (50, 7), name
        assert np.array_equal(rows.take(WANTED, name), POINTS[WANTED]), name
        if part == 1 and not name.endswith("csv"):  # csv is read in blocks of bytes
            assert {len(one) for one in rows.parts()} == {1}, name


def test_bfloat16_and_tensors_are_read_as_single_precision(tmp_path: Path) -> None:
    half = torch.tensor(POINTS).bfloat16()
    save_tensors({"v": half}, tmp_path / "half.safetensors")
    rows = opened(str(tmp_path / "half.safetensors"))
    assert rows.dtype == "BF16"
    assert np.array_equal(rows.take(WANTED, ""), half.float().numpy()[WANTED])
    assert np.array_equal(of_array(half, "x").take(WANTED, ""), half.float().numpy()[WANTED])


def test_half_precision_is_checked_too(tmp_path: Path) -> None:
    np.save(tmp_path / "half.npy", np.array([[1.0, 2.0], [3.0, np.inf]], np.float16))
    with pytest.raises(InputError, match="row 2: dimension 1 is inf"):
        opened(str(tmp_path / "half.npy")).take(np.array([0]), "")


def test_whole_numbers_beside_fractions_are_dimensions_and_named(tmp_path: Path) -> None:
    write(tmp_path)
    assert open_vectors(tmp_path / "a.csv", None).whole == ("id",)
    assert open_vectors(tmp_path / "a.csv", None).width == 8
    assert opened(str(tmp_path / "a.csv")).whole == ()


def test_dates_are_text_and_ascending_numbers_may_be_names(tmp_path: Path) -> None:
    (tmp_path / "dated.csv").write_text("date,v\n05.05.2024,1.5\n06.05.2024,2.5\n1.2.3,3.5\n")
    assert open_vectors(tmp_path / "dated.csv", None).columns == ("v",)
    (tmp_path / "numbered.csv").write_text("0,1,2\n1.5,2.5,3.5\n4.5,5.5,6.5\n")
    assert open_vectors(tmp_path / "numbered.csv", None).columns == ("0", "1", "2")


def changed(row: int, column: int, value: float) -> Any:
    points = POINTS.copy()
    points[row, column] = value
    return points


@pytest.mark.parametrize("value", [np.nan, np.inf, -1e30])
def test_a_value_that_is_no_number_is_named_by_row_and_column(tmp_path: Path, value: float) -> None:
    for name, file in write(tmp_path, changed(30, 2, value)).items():
        place = r"row 31: (dimension 2|column 'c') is"
        with pytest.raises(InputError, match=place):
            opened(file).take(np.array([0]), name)  # also in a row that is not drawn


def test_other_files_are_one_line_each(tmp_path: Path) -> None:
    write(tmp_path)
    np.save(tmp_path / "empty.npy", POINTS[:0])
    np.save(tmp_path / "single.npy", POINTS[0])
    np.save(tmp_path / "large.npy", np.array([[2**62, 1], [1, 2]]))
    np.save(tmp_path / "objects.npy", np.array([{}], object), allow_pickle=True)
    (tmp_path / "cut.npy").write_bytes((tmp_path / "a.npy").read_bytes()[:500])
    (tmp_path / "none.npy").write_bytes(b"")
    for name in ("bad.parquet", "bad.safetensors", "bad.npy"):
        (tmp_path / name).write_bytes(b"something else")
    lists = [row.tolist() for row in POINTS[:3]]
    tables = {"ragged": [*lists, [1.0]], "null": [*lists, None], "within": [*lists, [1.0] * 6 + [None]]}
    for name, rows in tables.items():
        pq.write_table(pa.table({"v": rows}), tmp_path / f"{name}.parquet")
    pq.write_table(pa.table({"name": ["x"]}), tmp_path / "text.parquet")
    pq.write_table(pa.table({"v": lists, "w": lists}), tmp_path / "both.parquet")
    for name, text in {
        "rows": "a,b\n1,2\n3\n",
        "text": "a,b\n1,2\n3,x\n5,6\n7,8\n",
        "head": "a,b\n",
        "bare": "1.5,-2\n3,4\n5,6\n",
        "whole": "5,3,9\n1,2,3\n4,5,6\n",
        "point": "a,b\n.5,.5\n.25,x\n.5,1\n2.,7\n",
        "nothing": "",
    }.items():
        (tmp_path / f"{name}.csv").write_text(text, "utf-8")
    for name, said in {
        "empty.npy": "0 rows of 7 numbers",
        "single.npy": r"of shape \[7\]; expected numbers \[rows, dimensions\]",
        "large.npy": "row 1: dimension 0 is 4611686018427387904; expected a finite number up to 1e",
        "objects.npy": "holds object",
        "cut.npy": "not a whole npy",
        "none.npy": "not a whole npy",
        "absent.npy": "no such file",
        "a.npy:v": "leave out ':v'",
        "bare.csv": "line 1 holds numbers, not the names of columns",
        "whole.csv": "line 1 holds numbers, not the names of columns",
        "point.csv": "row 2: column 'b' is 'x', where most rows have a number",
        "bad.parquet": "not a whole parquet",
        "bad.safetensors": "not a whole safetensors",
        "bad.npy": "not a whole npy",
        "two.safetensors": "more than one matrix .*name it: two.safetensors:v",
        "two.safetensors:q": "no 'q' in the file; there are: ",
        "a.safetensors:bias": r"of shape \[3\]",
        "ragged.parquet": "row 4: has 1 numbers, the first row has 7",
        "null.parquet": "row 4: is empty",
        "within.parquet": "row 4: dimension 6 is nan",
        "text.parquet": "no column of lists of numbers; there are: name",
        "both.parquet": "more than one column of lists of numbers .*name it: both.parquet:v",
        "lists.parquet:tags": "column 'tags' holds list<.*>; expected a list of numbers",
        "rows.csv": "Row #3: Expected 2 columns, got 1",
        "text.csv": "row 2: column 'b' is 'x', where most rows have a number",
        "head.csv": "0 rows of 2 numbers",
        "nothing.csv": "not a whole csv",
    }.items():
        with pytest.raises(InputError, match=said) as error:
            opened(str(tmp_path / name)).take(np.array([0]), name)
        assert name.partition(":")[0] in str(error.value)
        assert "\n" not in str(error.value)


def test_the_digest_is_that_of_the_file(tmp_path: Path) -> None:
    write(tmp_path)
    whole = file_digest(tmp_path / "a.npy")
    (tmp_path / "a.npy").write_bytes((tmp_path / "a.npy").read_bytes() + b" ")
    assert len(whole) == 64
    assert file_digest(tmp_path / "a.npy") != whole


def test_a_name_without_the_ending_is_no_file_of_vectors(tmp_path: Path) -> None:
    (tmp_path / "folder.npy").mkdir()
    assert named("bert-base-cased") is None
    assert named(str(tmp_path / "folder.npy")) is None
    assert named("a.safetensors:b:c") == (Path("a.safetensors"), "b:c")
