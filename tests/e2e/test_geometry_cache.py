"""What `isoscope geometry` keeps: found where nothing changed, made again where anything did, and nothing left over."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from isoscope import plugins
from isoscope.corpora.plain import read_texts
from isoscope.errors import InputError
from isoscope.report.geometry import page
from isoscope.stages import geometry as stage
from probe_material import bert, gpt2, pieces, sentences

SETTINGS: dict[str, Any] = {
    "measures": ("isoscore", "classes"),
    "vectors": ("mean",),
    "sentences": 40,
    "words": 40,
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
    folder = tmp_path_factory.mktemp("anywhere")
    for name, model in (("encoder", bert()), ("decoder", gpt2())):
        model.save_pretrained(folder / name)
        pieces(folder / name)
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
    """The table of a call, its page written too."""
    texts = read_texts(place / "reviews.csv", column=column, labels=labels)
    settings = stage.Settings(**SETTINGS | more)
    stage.check_out(out)
    found = stage.geometry([stage.Checkpoint(name, place / name, name)], texts, settings, out)
    page(out)
    return found


@pytest.mark.parametrize("change", [{"labels": "half"}, {"column": "turned"}, {"labels": None}], ids=str)
def test_another_column_of_the_same_file_is_other_text(place: Path, tmp_path: Path, change: dict[str, Any]) -> None:
    before = made(place, tmp_path / "page")
    after = made(place, tmp_path / "page", **change)
    pd.testing.assert_frame_equal(after, made(place, tmp_path / "fresh", **change))
    assert not after.equals(before)


def test_classes_of_another_name_are_drawn_with_it(place: Path, tmp_path: Path) -> None:
    made(place, tmp_path)
    made(place, tmp_path, labels="renamed")
    assert ">warm</text>" in (tmp_path / "figures/planes-0.svg").read_text("utf-8")


def flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def another_value(content: bytes) -> bytes:
    rows = json.loads(content)
    rows[0]["value"] = 0.123
    return json.dumps(rows).encode()


@pytest.mark.parametrize(
    "pattern, change",
    [
        ("states/*/states/checkpoint.safetensors", flipped),
        ("states/*/probe.parquet", flipped),
        ("measures/*/rows.json", lambda content: content[:-100]),
        ("measures/*/rows.json", another_value),
        ("measures/*/manifest.json", lambda content: content[:-20]),
        ("figures/*/drawing.svg", lambda content: content.replace(b"Layer", b"Lawyer")),
        ("figures/*/drawing.png", flipped),
    ],
)
def test_what_was_altered_in_the_cache_is_made_again(place: Path, tmp_path: Path, pattern: str, change: Any) -> None:
    before = made(place, tmp_path)
    files = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    altered = sorted((tmp_path / "cache").glob(pattern))
    assert altered
    for path in altered:
        path.write_bytes(change(path.read_bytes()))
    pd.testing.assert_frame_equal(made(place, tmp_path), before)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == files


def test_svg_and_png_are_of_the_same_numbers_and_none_is_left_over(place: Path, tmp_path: Path) -> None:
    made(place, tmp_path / "other", labels="half", seed=1)
    made(place, tmp_path / "page")
    (tmp_path / "page/figures/mine.png").write_bytes(b"kept")
    for labels, seed in (("half", 1), ("label", 0), ("half", 1)):
        made(place, tmp_path / "page", labels=labels, seed=seed)
    expected = {path.name: path.read_bytes() for path in (tmp_path / "other/figures").iterdir()}
    found = {path.name: path.read_bytes() for path in (tmp_path / "page/figures").iterdir()}
    assert found == expected | {"mine.png": b"kept"}
    made(place, tmp_path / "page", labels=None)
    assert {name for name in expected if name.startswith("classes-")}
    assert not list((tmp_path / "page/figures").glob("classes-*"))


def test_a_change_of_code_is_another_key(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the stage's own code for states and measures; for a plugin's measure of that and of its file."""
    (tmp_path / "size.py").write_text(
        'from isoscope.plugins import measure\n\n@measure("size")\ndef size(cell):\n    return {"n": cell.n}\n', "utf-8"
    )
    monkeypatch.setattr(plugins, "MEASURES", {})
    plugins.load(tmp_path / "size.py")
    made(place, tmp_path / "page", measures=("isoscore", "size"))
    of_file = plugins.digest
    for name, version in (
        ("code_version", lambda name: "another" if name == "geometry" else "the same"),
        ("plugins.digest", lambda path: of_file(path) + "another"),
    ):
        kept = {kind: len(list((tmp_path / "page/cache" / kind).iterdir())) for kind in ("states", "measures")}
        monkeypatch.setattr(f"isoscope.stages.geometry.{name}", version)
        made(place, tmp_path / "page", measures=("isoscore", "size"))
        now = {kind: len(list((tmp_path / "page/cache" / kind).iterdir())) for kind in ("states", "measures")}
        new = {"states": 1, "measures": 2} if name == "code_version" else {"states": 0, "measures": 1}
        assert now == {kind: kept[kind] + new[kind] for kind in kept}


def test_the_first_token_of_a_causal_model_is_marked_where_it_is_asked_for(place: Path, tmp_path: Path) -> None:
    table = made(place, tmp_path, name="decoder", vectors=())
    assert set(table["vectors"]) == {"last", "mean", "words"}
    assert "is causal" not in (tmp_path / "index.html").read_text("utf-8")
    table = made(place, tmp_path, name="decoder", vectors=("first", "last"))
    assert set(table["vectors"]) == {"first", "last"}
    assert "decoder is causal: its first token has seen no other" in (tmp_path / "index.html").read_text("utf-8")


def test_a_measure_that_no_representation_has_is_said(place: Path, tmp_path: Path) -> None:
    for change in ({"measures": ("classes",), "labels": None}, {"measures": ("shape",), "vectors": ("words",)}):
        with pytest.raises(InputError, match=r"nothing to measure in .* need --labels"):
            made(place, tmp_path, **change)


@pytest.mark.parametrize("kept", ['{"files": {}}', "[1]", "{", '{"checkpoints": {}, "text": "", "classes": []}'])
def test_data_with_a_manifest_is_no_earlier_page(tmp_path: Path, kept: str) -> None:
    (tmp_path / "manifest.json").write_text(kept, "utf-8")
    with pytest.raises(InputError, match="holds something other than an earlier page"):
        stage.check_out(tmp_path)


def test_a_folder_of_figures_is_no_earlier_page_and_a_cache_is(tmp_path: Path) -> None:
    stage.check_out(tmp_path)
    stage.check_out(tmp_path / "new/one")
    (tmp_path / "cache/states").mkdir(parents=True)
    stage.check_out(tmp_path)
    for name in ("figures", "cache/others"):
        (tmp_path / name).mkdir()
        with pytest.raises(InputError, match="holds something other than an earlier page"):
            stage.check_out(tmp_path)
        (tmp_path / name).rmdir()
