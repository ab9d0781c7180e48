"""The cache of `isoscope geometry`: reused if nothing changed, recomputed otherwise, without leftovers."""

import json
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from transformers import MambaConfig, MambaModel

from isoscope import plugins
from isoscope.base.errors import InputError
from isoscope.data.checkpoints import checkpoint_digest
from isoscope.data.plain import read_texts
from isoscope.platform.report.checkpoint_page import page
from isoscope.platform.stages.page_folder import check_out, write_page
from isoscope.states.checkpoint_tables import geometry
from isoscope.states.choices import Settings
from isoscope.states.given_checkpoints import Checkpoint
from probe_material import bert, gpt2, save, sentences

SETTINGS: dict[str, Any] = {
    "analyses": ("measures", "planes"),
    "measures": ("isoscore", "classes"),
    "vectors": ("mean",),
    "sentences": 40,
    "words": 40,
    "attended": 4,
    "alignment": "procrustes",
    "folds": 3,
    "max_length": 32,
    "subsample": 16,
    "draws": 3,
    "confidence": 0.9,
    "seed": 0,
    "batch_size": 8,
    "device": "cpu",
    "precision": "fp32",
    "threads": 1,
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An encoder, a decoder, and sentences in two columns with two kinds of classes."""
    mamba = MambaModel(MambaConfig(vocab_size=200, hidden_size=16, num_hidden_layers=2, state_size=4))
    models = {"other": bert(1), "decoder": gpt2(), "recurrent": mamba, "wide": bert(2, hidden_size=32)}
    folder = save(tmp_path_factory.mktemp("anywhere"), encoder=bert(), **models)
    table = sentences().to_pandas()
    turned = [" ".join(reversed(text.split())) for text in table["sentence"]]
    halves = ["early"] * (len(table) // 2) + ["late"] * (len(table) - len(table) // 2)
    table.assign(turned=turned, half=halves, renamed=table["label"].map({0: "cold", 1: "warm"})).to_csv(
        folder / "reviews.csv", index=False
    )
    return folder


def made(
    place: Path,
    out: Path,
    *,
    column: str = "sentence",
    labels: str | None = "label",
    name: str = "encoder",
    **more: Any,
) -> pd.DataFrame:
    """The table of measures of a call; empty where none was asked for."""
    texts = read_texts(place / "reviews.csv", column=column, labels=labels)
    settings = Settings(**SETTINGS | more)
    check_out(out, "geometry")
    checkpoints = [Checkpoint(one, place / one, checkpoint_digest(place / one)) for one in name.split()]
    found, facts = geometry(checkpoints, texts, settings, out / "cache")
    write_page(out, "geometry", facts, found)
    return found.get("geometry", pd.DataFrame())


def drawn(place: Path, out: Path, **more: Any) -> pd.DataFrame:
    """The same, with its page and figures."""
    table = made(place, out, **more)
    page(out)
    return table


@pytest.mark.parametrize("change", [{"labels": "half"}, {"column": "turned"}, {"labels": None}], ids=str)
def test_another_column_of_the_same_file_is_other_text(place: Path, tmp_path: Path, change: dict[str, Any]) -> None:
    before = made(place, tmp_path / "page")
    after = made(place, tmp_path / "page", **change)
    pd.testing.assert_frame_equal(after, made(place, tmp_path / "fresh", **change))
    assert not after.equals(before)


def test_classes_of_another_name_are_drawn_with_it(place: Path, tmp_path: Path) -> None:
    drawn(place, tmp_path)
    drawn(place, tmp_path, labels="renamed")
    assert ">warm</text>" in (tmp_path / "figures/planes-0.svg").read_text("utf-8")


def flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


@pytest.mark.parametrize(
    "pattern, change",
    [
        ("states/*/states/checkpoint.safetensors", flipped),
        ("states/*/probe.parquet", flipped),
        ("tables/*/geometry.parquet", flipped),
        ("tables/*/planes.parquet", lambda content: content[:-100]),
        ("tables/*/note.json", lambda _: b'"no"'),
        ("tables/*/manifest.json", lambda content: content[:-20]),
        ("figures/*/drawing.svg", lambda content: content.replace(b"Layer", b"Lawyer")),
        ("figures/*/drawing.png", flipped),
    ],
)
def test_what_was_altered_in_the_cache_is_made_again(place: Path, tmp_path: Path, pattern: str, change: Any) -> None:
    call = drawn if pattern.startswith("figures") else made
    before = call(place, tmp_path)
    files = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    altered = sorted((tmp_path / "cache").glob(pattern))
    assert altered
    for path in altered:
        path.write_bytes(change(path.read_bytes()))
    pd.testing.assert_frame_equal(call(place, tmp_path), before)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == files


def kept(out: Path, kind: str) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in (out / "cache" / kind).iterdir()}


def counted(out: Path) -> tuple[int, int]:
    """Number of stored states and tables."""
    return len(kept(out, "states")), len(kept(out, "tables"))


def test_a_change_of_code_is_another_key(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the stage's own code for states and measures; for a plugin's measure of that and of its file."""
    (tmp_path / "size.py").write_text(
        'from isoscope.plugins import measure\n\n@measure("size")\ndef size(cell):\n    return {"n": cell.n}\n', "utf-8"
    )
    monkeypatch.setattr(plugins.MEASURES, "own", {})
    plugins.load(tmp_path / "size.py")
    made(place, tmp_path / "page", measures=("isoscore", "size"))
    of_file = plugins.digest
    for place_of, version, new in (
        ("checkpoint_tables.code_version", lambda _: "another", (0, 3)),
        ("checkpoint_states.code_version", lambda _: "another", (1, 3)),
        ("checkpoint_tables.plugins.digest", lambda path: of_file(path) + "another", (0, 1)),
    ):
        states, tables = counted(tmp_path / "page")
        monkeypatch.setattr(f"isoscope.states.{place_of}", version)
        made(place, tmp_path / "page", measures=("isoscore", "size"))
        assert counted(tmp_path / "page") == (states + new[0], tables + new[1])


def test_a_measure_that_no_representation_has_is_said(place: Path, tmp_path: Path) -> None:
    for change in ({"measures": ("classes",), "labels": None}, {"measures": ("shape",), "vectors": ("words",)}):
        with pytest.raises(InputError, match=r"nothing to measure in .* needs --labels"):
            made(place, tmp_path, **change)


def test_what_is_added_is_all_that_is_worked_out(place: Path, tmp_path: Path) -> None:
    """Attention is a separate pass, so hidden states are kept; those of another device are computed again."""
    made(place, tmp_path)
    before = {kind: kept(tmp_path, kind) for kind in ("states", "tables")}
    made(place, tmp_path, analyses=("measures", "planes", "attention"))
    for kind, files in before.items():
        assert files.items() < kept(tmp_path, kind).items()
        assert len(kept(tmp_path, kind)) == len(files) + 1
    heads = pd.read_parquet(tmp_path / "attention.parquet")
    assert set(zip(heads["snapshot"], heads["layer"], heads["head"], strict=True)) == set(
        product(("checkpoint", "random"), (1, 2), (0, 1))
    )
    assert set(heads["n"]) == {4}
    made(place, tmp_path, analyses=("measures",))
    assert sorted(path.name for path in tmp_path.glob("*.parquet")) == ["geometry.parquet"], "an earlier page's go"


def test_hidden_states_of_another_device_are_others(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(place, tmp_path)
    monkeypatch.setattr("isoscope.states.extract.environment", lambda *_, **__: 1 / 0)  # extracts nothing again
    made(place, tmp_path)
    with pytest.raises(ZeroDivisionError):
        made(place, tmp_path, device="cuda")


def test_planes_of_one_shape_are_turned_to_the_first(place: Path, tmp_path: Path) -> None:
    found = {}
    for alignment in ("procrustes", "sign"):
        out = tmp_path / alignment
        made(place, out, name="encoder other decoder wide", analyses=("planes",), vectors=(), alignment=alignment)
        found[alignment] = [pd.read_parquet(out / f"{name}.parquet") for name in ("planes", "frames")]
    distances = {}
    for alignment, (points, frames) in found.items():
        together = frames.groupby("group")["checkpoint"].unique().map(sorted)
        kinds = frames.groupby("group")["vectors"].first()
        assert sorted(map(tuple, together[kinds == "first"])) == [("encoder", "other"), ("wide",)]
        assert sorted(map(tuple, together[kinds == "mean"])) == [("decoder", "encoder", "other"), ("wide",)]
        assert sorted(map(tuple, together[kinds == "last"])) == [("decoder",)]
        own = frames[(frames["vectors"] == "mean") & frames["checkpoint"].isin(["encoder", "other"])]
        angles = own.set_index(["checkpoint", "layer"])["angle_1"]
        assert angles["encoder"].max() < 1e-3 < 5 < angles["other"].min()
        one, other = (
            points[(points["checkpoint"] == name) & (points["vectors"] == "mean")][["pc1", "pc2"]].to_numpy()
            for name in ("encoder", "other")
        )
        distances[alignment] = float(((one - other) ** 2).sum())
    assert distances["procrustes"] < distances["sign"]


def test_a_model_without_attention_or_tables_is_a_note_and_no_crash(place: Path, tmp_path: Path) -> None:
    asked = ("planes", "attention", "embedding", "spectrum", "topology")
    drawn(place, tmp_path, name="recurrent decoder", analyses=asked)
    notes = json.loads((tmp_path / "manifest.json").read_text("utf-8"))["notes"]
    assert {(one["checkpoint"], one["analysis"]) for one in notes} == {
        ("recurrent", "attention"), ("recurrent", "embedding"),
    }  # fmt: skip
    said = (tmp_path / "index.html").read_text("utf-8")
    assert "recurrent: no attention: attention: MambaModel returns no maps" in said
    assert "recurrent: no position table" in said
    assert "decoder: no " not in said
    for name in ("attention", "cosines", "spectrum"):
        assert set(pd.read_parquet(tmp_path / f"{name}.parquet")["checkpoint"]) == {"decoder"}
    before = kept(tmp_path, "states")
    made(place, tmp_path, name="recurrent decoder", analyses=asked)
    assert kept(tmp_path, "states") == before, "that there is none is known the second time"


def test_a_manifest_removes_nothing_outside_its_folder(tmp_path: Path) -> None:
    (tmp_path / "mine.parquet").touch()
    for tables in (["../mine"], [str(tmp_path / "mine")], "mine", [1]):
        (tmp_path / "out").mkdir(exist_ok=True)
        (tmp_path / "out/manifest.json").write_text(json.dumps({"made_by": "isoscope geometry", "tables": tables}))
        write_page(tmp_path / "out", "geometry", {}, {})
        assert (tmp_path / "mine.parquet").exists()


def test_data_and_a_folder_of_figures_are_no_earlier_page_and_a_cache_is(tmp_path: Path) -> None:
    check_out(tmp_path, "geometry")
    check_out(tmp_path / "new/one", "geometry")
    (tmp_path / "cache/states").mkdir(parents=True)
    check_out(tmp_path, "geometry")
    (tmp_path / ".manifest.json.writing").touch()  # of a call that the disk refused
    check_out(tmp_path, "geometry")
    for name in ("figures", "cache/others"):
        (tmp_path / name).mkdir()
        with pytest.raises(InputError, match="contains other files than an earlier page"):
            check_out(tmp_path, "geometry")
        (tmp_path / name).rmdir()
    for manifest in ('{"files": {}}', "[1]", "{", '{"checkpoints": {}, "text": "", "classes": []}'):
        (tmp_path / "manifest.json").write_text(manifest, "utf-8")
        with pytest.raises(InputError, match="contains other files than an earlier page"):
            check_out(tmp_path, "geometry")
