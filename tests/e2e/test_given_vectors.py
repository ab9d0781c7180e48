"""Vectors of files in the place of checkpoints: `isoscope geometry` and `isoscope spaces`, and both in Python."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.numpy import save_file

import isoscope
from isoscope.base.errors import InputError
from isoscope.data.plain import read_texts
from isoscope.geometry import effective_rank, spectrum
from isoscope.platform.cli import app
from isoscope.states.trajectory import Trajectory
from probe_material import bert, save, sentences

FEW = ("--sentences", "40", "--words", "40", "--subsample", "16", "--draws", "3")
SOME = ("--analysis", "measures", "--analysis", "probing", "--analysis", "planes", "--analysis", "spectrum")
SPACES = ("--items", "100", "--draws", "20", "--permutations", "8", "--histogram", "1000")
FORMATS = ("v.npy", "v.safetensors", "v.parquet", "v.csv")
OF_TOKENS = ("arch_score_null", "arch_score_p")
"""Metrics that depend on the lengths of sentences in tokens, which vectors do not have."""


def run(place: Path, *words: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        app([*words], standalone_mode=False)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint's page, and its last layer's means over tokens as files of every format."""
    folder = save(tmp_path_factory.mktemp("given"), encoder=bert())
    table = sentences().to_pandas().rename(columns={"sentence": "review"})
    table.to_csv(folder / "reviews.csv", index=False)
    run(folder, "geometry", "encoder", *OWN, "--out", "page", *FEW, *SOME)
    (states,) = (folder / "page/cache/states").iterdir()
    points = Trajectory(states).arrays(Trajectory(states).best).last("mean")
    np.save(folder / "v.npy", points)
    save_file({"v": points}, folder / "v.safetensors")
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(points.ravel()), points.shape[1])
    pq.write_table(pa.table({"v": vectors, **table.to_dict("list")}), folder / "v.parquet")
    pd.concat([pd.DataFrame(points).add_prefix("d"), table], axis=1).to_csv(folder / "v.csv", index=False)
    for name in FORMATS:
        columns = ("--text", "review") if name in FORMATS[2:] else OWN[:4]
        run(folder, "geometry", name, *columns, "--labels", "label", "--out", f"page-{name}", *FEW, *SOME)
    return folder


OWN = ("--text", "reviews.csv", "--column", "review", "--labels", "label")


def read(place: Path, page: str, table: str) -> pd.DataFrame:
    found = pd.read_parquet(place / page / f"{table}.parquet")
    last = found["layer"] == found.groupby("checkpoint")["layer"].transform("max") if "layer" in found else True
    return found[last & (found["vectors"].isin(["mean", "given"])) & (found.get("snapshot") != "random")]


@pytest.mark.parametrize("name", FORMATS)
def test_vectors_of_a_checkpoint_have_exactly_its_numbers(place: Path, name: str) -> None:
    own, given = (read(place, page, "geometry").set_index("metric") for page in ("page", f"page-{name}"))
    alike = [figure for figure in given.index if figure not in OF_TOKENS]
    assert len(alike) > 30
    for column in ("value", "low", "high", "baseline", "n", "d"):
        assert np.array_equal(own.loc[alike, column], given.loc[alike, column], equal_nan=True), column
    own, given = (read(place, page, "probing") for page in ("page", f"page-{name}"))
    scores = ["score", "chance", "permuted", "control", "compression"]
    assert own.loc[own["task"] == "label", scores].to_numpy().tolist() == given[scores].to_numpy().tolist()
    own, given = (read(place, page, "singular_values")["value"] for page in ("page", f"page-{name}"))
    assert own.tolist() == given.tolist()


def test_all_formats_have_the_same_tables(place: Path) -> None:
    for table in ("geometry", "probing", "learning", "baselines", "planes", "frames", "singular_values"):
        first, *others = (
            pd.read_parquet(place / f"page-{name}/{table}.parquet").drop(
                columns=["checkpoint", "reference"], errors="ignore"
            )
            for name in FORMATS
        )
        for other in others:
            pd.testing.assert_frame_equal(first, other)


def test_the_page_says_what_was_read_and_what_is_missing(place: Path) -> None:
    facts = json.loads((place / "page-v.parquet/manifest.json").read_text())
    assert facts["checkpoints"] == {"v.parquet": hashlib.sha256((place / "v.parquet").read_bytes()).hexdigest()}
    assert facts["vectors"] == {"v.parquet": {"rows": 32, "width": 16, "dtype": "float", "columns": ["v"]}}
    text = (place / "page-v.parquet/index.html").read_text("utf-8")
    for said in (
        "1 file of vectors, without a model. 32 of 32 sentences of v.parquet, column &#39;review&#39;",
        "v.parquet: no attention, embedding block, words, random-weights control: vectors come without a model.",
        "32 rows of 16 numbers (float), column v",
    ):
        assert said in text
    assert "1 checkpoint" not in text
    assert "control –" not in text


def test_a_second_call_reads_no_vectors_and_a_changed_file_is_read(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.save(place / "changing.npy", np.random.default_rng(0).normal(size=(40, 5)))
    command = ("geometry", "changing.npy", *FEW, "--measure", "isoscore", "--analysis", "measures", "--out", "changing")
    run(place, *command)
    with monkeypatch.context() as patch:
        patch.setattr("isoscope.data.given_rows.GivenRows.take", None)
        run(place, *command)
    before = (place / "changing/geometry.parquet").read_bytes()
    np.save(place / "changing.npy", np.random.default_rng(1).normal(size=(40, 5)))
    run(place, *command)
    assert (place / "changing/geometry.parquet").read_bytes() != before


def test_a_checkpoint_and_vectors_stand_on_one_page_over_the_same_rows(place: Path) -> None:
    run(place, "geometry", "encoder", "v.npy", *OWN, "--out", "both", *FEW[:1], "20", *FEW[2:], *SOME)
    table = read(place, "both", "geometry").set_index(["metric", "checkpoint"])["value"].unstack()
    known = table.drop(index=[*OF_TOKENS], errors="ignore").dropna()
    assert len(known) > 25
    assert known["encoder"].tolist() == known["v.npy"].tolist()
    points = pd.read_parquet(place / "both/planes.parquet")
    assert points.groupby("checkpoint")["sentence"].nunique().tolist() == [20, 20]


def test_empty_and_repeated_sentences_leave_out_their_own_vectors(place: Path, tmp_path: Path) -> None:
    points = np.random.default_rng(3).normal(size=(30, 6)).astype(np.float32)
    texts = [f"sentence {row}" for row in range(30)]
    texts[4], texts[9] = "", texts[2]
    pd.DataFrame({"text": texts}).to_csv(tmp_path / "texts.csv", index=False)
    np.save(tmp_path / "v.npy", points)
    options = (*FEW, "--measure", "isoscore", "--analysis", "measures", "--out", "page")
    run(tmp_path, "geometry", "v.npy", "--text", "texts.csv", *options)
    found = pd.read_parquet(tmp_path / "page/geometry.parquet").set_index("metric")
    kept = np.delete(points, [4, 9], axis=0)
    assert found.loc["effective_rank", "n"] == 28
    assert found.loc["effective_rank", "value"] == pytest.approx(effective_rank(spectrum(kept)), rel=1e-12)
    facts = json.loads((tmp_path / "page/manifest.json").read_text())
    assert "1 of 30 rows are empty and 1 of 30 rows repeat an earlier sentence" in facts["left_out"]
    assert read_texts(tmp_path / "texts.csv", column=None, labels=None).kept == (*range(4), *range(5, 30))


def planted(rows: int, groups: int) -> tuple[Any, Any, Any]:
    """Vectors whose groups lie far apart, with a class of each group at random."""
    random = np.random.default_rng(5)
    group = np.arange(rows) % groups
    points = random.normal(size=(groups, 60))[group] * 4 + random.normal(size=(rows, 60)) * 0.1
    return points, random.permutation(np.arange(groups) % 2)[group], group


def probe(folder: Path, points: Any, *options: str, **columns: Any) -> pd.Series:
    lists = [row.tolist() for row in points]
    pq.write_table(pa.table({"v": lists, **columns}), folder / "v.parquet")
    run(folder, "geometry", "v.parquet", "--labels", "label", *options, "--analysis", "probing", "--out", "page")
    return pd.read_parquet(folder / "page/probing.parquet").iloc[0]


def test_a_probe_finds_planted_classes_and_no_others(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    label = np.arange(300) % 2
    points = random.normal(size=(300, 12)) + 2.0 * label[:, None] * np.eye(12)[0]
    assert probe(tmp_path, points, label=label)["score"] > 0.8
    assert abs(probe(tmp_path, points, label=random.permutation(label))["score"] - 0.5) < 0.1


def test_groups_are_held_out_together(tmp_path: Path) -> None:
    """Rows of a group are near copies: alone they give their class away, held out together they do not."""
    points, label, group = planted(240, 40)
    alone = probe(tmp_path, points, label=label, doc=group)
    together = probe(tmp_path, points, "--groups", "doc", label=label, doc=group)
    assert alone["score"] > 0.95
    assert together["score"] < 0.75
    assert (
        "rows with the same doc are drawn, left out and held out together" in (tmp_path / "page/index.html").read_text()
    )
    for rows, least, most in ((None, 0.9, 1.0), (group, 0.0, 0.8)):
        found = isoscope.geometry(points, labels=label, groups=rows, measures=["classes"]).set_index("metric")
        assert least <= found.loc["linear_separability", "value"] <= most


def test_wrong_input_is_one_line(place: Path) -> None:
    np.save(place / "few.npy", np.ones((5, 3)))
    pq.write_table(pa.table({"v": [[1.0, 2.0]] * 32, "label": [1] * 31 + [0]}), place / "other.parquet")
    for words, said in {
        ("v.npy", "--labels", "label"): "has no columns, such as 'label'",
        ("v.parquet", "--labels", "nothing"): "no column 'nothing' .*there are: v, review, label",
        ("v.parquet", "--text", "nothing.csv"): "no column 'nothing.csv' .*no such file",
        ("v.parquet", "--text", "review", "--column", "review"): "--column review: names a column of a file",
        ("v.npy", "few.npy"): "rows: v.npy 32, few.npy 5",
        ("few.npy", *OWN): "rows: reviews.csv 32, few.npy 5",
        (
            "v.parquet",
            "other.parquet",
            "--labels",
            "label",
        ): r"other.parquet, row 1: column 'label' is 1, and in v.parquet 0",
        ("encoder", "v.npy"): "--text: a checkpoint reads sentences",
        ("encoder",): "--text: a checkpoint reads sentences",
        ("encoder", "--text", "nothing.csv"): "nothing.csv: no such file",
        ("v.npy", "v.npy"): "are the same file; give it once",
        ("v.npy", "--analysis", "spaces"): "compare vectors by: isoscope spaces A B --key",
        ("nothing.npy",): "nothing.npy: no such file",
    }.items():
        with pytest.raises(InputError, match=said):
            run(place, "geometry", *words, "--out", "wrong")
    with pytest.raises(InputError, match=r"checkpoint v\.npy: holds vectors"):
        run(place, "evaluate", "v.npy", *OWN)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pd.DataFrame]:
    """A; B: A rotated, scaled, in another order and without some rows; N: noise. And their similarities."""
    folder, random = tmp_path_factory.mktemp("pair"), np.random.default_rng(0)
    points = random.normal(size=(400, 10)) * np.linspace(2, 0.5, 10)
    turned = points @ np.linalg.qr(random.normal(size=(10, 10)))[0] * 3
    keys, order = np.array([f"k{row}" for row in range(400)]), random.permutation(400)[:380]
    files = {"A": (points, keys), "B": (turned[order], keys[order]), "N": (random.normal(size=(400, 10)), keys)}
    for name, (rows, own) in files.items():
        table = pa.table({"v": [row.tolist() for row in rows], "id": own, "doc": [int(key[1:]) // 4 for key in own]})
        pq.write_table(table, folder / f"{name}.parquet")
        pq.write_table(table.take(random.permutation(len(own))), folder / f"{name}-shuffled.parquet")
    run(folder, "spaces", "A.parquet", "B.parquet", "N.parquet", "--key", "id", *SPACES, "--out", "page")
    return folder, pd.read_parquet(folder / "page/similarity.parquet")


def test_a_rotation_is_the_same_space_and_noise_is_at_its_null(pair: tuple[Path, pd.DataFrame]) -> None:
    folder, table = pair
    same = table[table["other"] == "B.parquet"].set_index("measure")["value"]
    for measure in ("cka", "procrustes", "cca", "pwcca_one", "pwcca_other", "rsa", "neighbours"):
        assert same[measure] == pytest.approx(1.0, abs=1e-5), measure
    noise = table[(table["one"] == "A.parquet") & (table["other"] == "N.parquet")].dropna(subset="value")
    assert (abs(noise["value"] - noise["null"]) < 4 * noise["null_sd"] + 0.02).all()
    assert set(noise.loc[noise["measure"] == "cka", "n"]) == {380}
    facts = json.loads((folder / "page/manifest.json").read_text())
    assert facts["left_out"] == "Rows that another file lacks: 20 of A.parquet and 20 of N.parquet; left out"
    assert facts["sentences"] == {"looked at": 380, "there": 380}
    counts = pd.read_parquet(folder / "page/counts.parquet").set_index("words")["occurrences"]
    assert (counts["rows of A.parquet"], counts["rows of B.parquet"], counts["in all files"]) == (400, 380, 380)


def test_a_space_of_one_point_is_said_and_not_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "a.npy", np.random.default_rng(0).standard_normal((120, 6)))
    np.save(tmp_path / "one.npy", np.ones((120, 6)))
    run(tmp_path, "spaces", "a.npy", "one.npy", "--out", "page", *SPACES)
    table = pd.read_parquet(tmp_path / "page/similarity.parquet")
    assert table["value"].isna().all()
    assert {*table["why"]} == {"all points of a layer are one"}
    assert "warning" not in capsys.readouterr().err
    page = (tmp_path / "page/index.html").read_text("utf-8")
    assert "joined row by row" in page
    assert "120.000" not in page


def test_the_order_of_rows_does_not_matter_with_a_key(pair: tuple[Path, pd.DataFrame]) -> None:
    folder, table = pair
    names = [f"{name}-shuffled.parquet" for name in "ABN"]
    run(folder, "spaces", *names, "--key", "id", *SPACES, "--out", "shuffled")
    other = pd.read_parquet(folder / "shuffled/similarity.parquet")
    pd.testing.assert_frame_equal(
        table.drop(columns=["one", "other", "model", "other_model"]),
        other[table.columns].drop(columns=["one", "other", "model", "other_model"]),
    )


def test_groups_take_the_place_of_sentences(pair: tuple[Path, pd.DataFrame]) -> None:
    folder, _ = pair
    run(folder, "spaces", "A.parquet", "N.parquet", "--key", "id", "--groups", "doc", *SPACES, "--out", "grouped")
    table = pd.read_parquet(folder / "grouped/similarity.parquet").set_index("measure")
    assert table.loc["cka", "n"] == 400
    assert table.loc["rsa", "n"] == 100, "an item of each group"
    counts = pd.read_parquet(folder / "grouped/counts.parquet").set_index("words")["sentences"]
    assert counts["in all files"] == 100


def test_wrong_input_of_spaces_is_one_line(pair: tuple[Path, pd.DataFrame], place: Path) -> None:
    folder, _ = pair
    lists = [[1.0, 2.0]] * 30
    pq.write_table(pa.table({"v": lists, "id": ["a", "b", "a", *map(str, range(27))]}), folder / "twice.parquet")
    pq.write_table(pa.table({"v": lists, "id": ["a", None, *map(str, range(28))]}), folder / "lacking.parquet")
    pq.write_table(
        pa.table({"v": [[1.0]] * 400, "id": [f"k{n}" for n in range(400)], "doc": [7] * 400}), folder / "G.parquet"
    )
    np.save(folder / "v.npy", np.ones((400, 3)))
    (folder / "id.csv").write_text("id,n,x,y\n" + "".join(f"k{n},{n},0.5,{n}.25\n" for n in range(400)))
    np.save(folder / "few.npy", np.ones((3, 3)))
    np.save(folder / "few2.npy", np.ones((3, 4)))
    pq.write_table(
        pa.table({"v": [[1.0]] * 400, "id": [f"k{n}" for n in range(400)], "doc": [None] * 400}), folder / "E.parquet"
    )
    for words, said in {
        ("A.parquet",): "one file of vectors; give two or more",
        ("A.parquet", "B.parquet"): "rows: A.parquet 400, B.parquet 380; name a column .*--key",
        ("A.parquet", "twice.parquet", "--key", "id"): "twice.parquet, rows 1 and 3: column 'id' is 'a' in both",
        ("A.parquet", "lacking.parquet", "--key", "id"): "lacking.parquet, row 2: column 'id' is empty",
        ("A.parquet", "v.npy", "--key", "id"): "v.npy: has no columns, such as 'id'",
        ("A.parquet", "N.parquet", "--key", "nothing"): "A.parquet: no column 'nothing' .*there are: v, id, doc",
        ("A.parquet", "N.parquet", "--key", "id", "--groups", "nothing"): "no file has this column",
        ("A.parquet", "G.parquet", "--key", "id", "--groups", "doc"): "column 'doc' is '7', and '0' in A.parquet",
        ("A.parquet", "E.parquet", "--key", "id", "--groups", "doc"): "E.parquet, row 1: column 'doc' is empty",
        ("id.csv", "A.parquet", "--key", "id"): "id.csv: 'n' are whole numbers beside columns of fractions: leave out",
        ("few.npy", "few2.npy"): "few.npy: 3 rows are in all files; at least 20 are needed",
        ("A.parquet", str(place / "encoder")): "A.parquet holds vectors, and .*encoder is a model",
        ("A.parquet", "N.parquet", "--text", str(place / "reviews.csv"), "--column", "review"): "leave it out",
        (str(place / "encoder"),): "--text: checkpoints read sentences",
        (str(place / "encoder"), "--key", "id"): "--key: joins files of vectors",
    }.items():
        with pytest.raises(InputError, match=said):
            run(folder, "spaces", *words, "--out", "wrong")


def test_arrays_in_python_have_the_numbers_of_files(place: Path, pair: tuple[Path, pd.DataFrame]) -> None:
    points, label = np.load(place / "v.npy"), sentences()["label"].to_pylist()
    options: dict[str, Any] = {"labels": label, "subsample": 16, "draws": 3}
    command = read(place, "page-v.npy", "geometry").set_index("metric")["value"]
    found = isoscope.geometry(points, **options).set_index("metric")["value"]
    assert found.to_dict() == pytest.approx(command.to_dict(), abs=0, nan_ok=True)
    several = isoscope.geometry({"one": points, "other": torch.tensor(points)}, **options)
    for _, own in several.groupby("checkpoint"):
        assert own.set_index("metric")["value"].to_dict() == pytest.approx(command.to_dict(), abs=0, nan_ok=True)
    folder, table = pair
    arrays, keys = {}, {}
    for name in ("A", "B", "N"):
        own = pq.read_table(folder / f"{name}.parquet")
        arrays[name], keys[name] = np.array(own["v"].to_pylist()), own["id"].to_pylist()
    similar = isoscope.spaces(arrays, keys=keys, items=100, draws=20, permutations=8, histogram=1000)["similarity"]
    assert similar["value"].tolist() == pytest.approx(table["value"].tolist(), abs=0, nan_ok=True)
    for wrong, said in (
        (lambda: isoscope.geometry(points[0]), "expected numbers"),
        (lambda: isoscope.geometry(points, labels=[1]), "labels: 1 for 32 vectors"),
        (lambda: isoscope.geometry({"a": points, "b": points[:9]}), "b: 9 for 32 vectors"),
        (lambda: isoscope.spaces({"a": points, "b": points}, keys={"a": [1]}), "a: 32 vectors, but 1 cells in key"),
        (lambda: isoscope.spaces({"a": points, "b": points}, nothing=1), "no option 'nothing'"),
    ):
        with pytest.raises(InputError, match=said):
            wrong()
