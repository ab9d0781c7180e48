"""The page of `isoscope geometry`: the tables' numbers, the warnings, no figure drawn twice."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from isoscope.platform.figures import fonts
from isoscope.platform.figures.pictures import Picture
from isoscope.platform.report.checkpoint_page import page
from isoscope.studies.geometry.checkpoint_views import KINDS
from isoscope.studies.geometry.page import summary
from tiny_font import write_font

FIGURES = {"avg_sim": "similarity", "two_nn_at_n": "intrinsic", "clusters_ami_label": "shape"}
HOSTILE = "<img src=x onerror=alert(1)>"
LAYERS, SENTENCES = 3, 12


def write(out: Path, checkpoints: tuple[str, ...] = ("encoder", "decoder"), **changed: Any) -> pd.DataFrame:
    """The page's tables; [CLS] vectors of the first checkpoint coincide at layer 0."""
    rng = np.random.default_rng(0)
    rows, planes, frames = [], [], []
    for group, checkpoint in enumerate(checkpoints):
        for layer in range(LAYERS):
            single = layer == 0 and checkpoint == checkpoints[0]
            for vectors in ("first", "words"):
                one_point = single and vectors == "first"
                for step, (metric, measure) in [(step, one) for step in (0, None) for one in FIGURES.items()]:
                    value = np.nan if one_point else rng.uniform()
                    spread = 0.125 if metric == "two_nn_at_n" else np.nan
                    row = {"checkpoint": checkpoint, "layer": layer, "vectors": vectors, "step": step}
                    row |= {"measure": measure, "metric": metric, "value": value, "baseline": 0.25, "d": 8}
                    row |= {"low": value - spread, "high": value + spread, "degenerate": one_point}
                    rows.append(
                        row
                        | {"n": 40 if vectors == "first" else 4321, "note": "all points are one" if one_point else None}
                    )
            facts = {"checkpoint": checkpoint, "layer": layer, "vectors": "first", "group": group}
            points = pd.DataFrame({"sentence": range(SENTENCES), "label": [0, 1] * (SENTENCES // 2)})
            planes.append(points.assign(pc1=rng.normal(size=SENTENCES), pc2=rng.normal(size=SENTENCES), **facts))
            shares = {"explained_1": 0.5, "explained_2": 0.25, "angle_1": 30.0 * group, "angle_2": 10.0 * group}
            frames.append(facts | shares | {"step": None, "degenerate": single})
    table = pd.DataFrame(rows).astype({"step": "Int64"})
    manifest = {
        "made_by": "isoscope geometry",
        "checkpoints": {name: f"{place}abcdef" * 9 for place, name in enumerate(checkpoints)},
        "given": {name: f"runs/{name}" for name in checkpoints},
        "text": "0123456789abcdef" * 4,
        "classes": ["negative", "positive"],
        "origin": "reviews.csv, column 'text', classes by 'stars'",
        "truncated": {"decoder": 3},
        "left_out": "reviews.csv: 2 of 874 rows are empty; left out",
        "sentences": {"looked at": SENTENCES, "there": 872},
        "settings": {
            "sentences": 40,
            "vectors": ["first", "words"],
            "alignment": "procrustes",
            "max_length": 32,
            "device": "cpu",
        },
        "tables": ["frames", "geometry", "planes"],
        "causal": [],
        "notes": [],
        "about": {name: ["weights: fp32"] for name in checkpoints},
        "warnings": [],
    }
    out.mkdir(parents=True, exist_ok=True)
    (out / "manifest.json").write_text(json.dumps(manifest | changed), "utf-8")
    table.to_parquet(out / "geometry.parquet")
    pd.concat(planes).to_parquet(out / "planes.parquet")
    pd.DataFrame(frames).to_parquet(out / "frames.parquet")
    return table


def again(out: Path, table: pd.DataFrame) -> str:
    """The page of another table in the same folder."""
    table.to_parquet(out / "geometry.parquet")
    return page(out).read_text("utf-8")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("geometry")
    write(out)
    page(out)
    return out


def rows_of(text: str, heading: str) -> list[list[str]]:
    body = text.partition(f">{heading}</h2>")[2].partition("<tbody>")[2].partition("</tbody>")[0]
    return [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in body.split("<tr")[1:]]


def test_the_table_holds_the_last_layers_numbers_beside_twin_and_noise(made: Path) -> None:
    table = pd.read_parquet(made / "geometry.parquet")
    last = table[table["layer"] == LAYERS - 1]
    found = rows_of((made / "index.html").read_text("utf-8"), "What are all metrics at the last layer?")
    assert len(found) == len(last) // 2
    assert list(dict.fromkeys(row[1] for row in found)) == ["first", "words"]
    where = (last["checkpoint"] == "decoder") & (last["metric"] == "two_nn_at_n") & (last["vectors"] == "words")
    own, twin = (last[where & (last["step"].isna() == other)].iloc[0] for other in (False, True))
    (row,) = [row for row in found if row[0].startswith("Intrinsic") and row[1:3] == ["words", "decoder"]]
    assert row[3:] == [
        f"{own['value']:.3f}",
        f"[{own['low']:.3f}, {own['high']:.3f}]",
        *(f"{twin['value']:.3f}", "0.250", "4,321", "8"),
    ]
    assert next(row for row in found if row[0].startswith("Mean cosine"))[4] == "–", "no interval where there is none"


def test_the_page_says_what_was_read_and_asks_for_nothing(made: Path) -> None:
    text = (made / "index.html").read_text("utf-8")
    digests = [digest[:12] for digest in json.loads((made / "manifest.json").read_text())["checkpoints"].values()]
    for said in (
        f"{SENTENCES} of 872 sentences of reviews.csv, column &#39;text&#39;",
        "2 of 874 rows are empty; left out.",
        "decoder: 3 sentences are longer than 32 tokens or the model&#39;s limit; they are truncated.",
        "<dt>encoder</dt><dd>runs/encoder, <code>0abcdef",
        "n = 4,321, d = 8.",
    ):
        assert said in text
    ids = re.findall(r'\sid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]+)"', text)) | set(re.findall(r"url\(#([^)]+)\)", text)) <= set(ids)
    assert not re.search(r'<script|@import|(?:src|href)="(?!#|data:)', text)
    for path in (made / "figures").glob("*.svg"):
        assert all(part in path.read_text("utf-8") for part in ("text 0123456789ab", *digests))
        assert path.with_suffix(".png").is_file()


def test_only_the_figures_of_changed_numbers_are_drawn_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = write(tmp_path)
    page(tmp_path)
    drawn, real = [], Picture.written
    monkeypatch.setattr(Picture, "written", lambda one, write: (drawn.append(one.name), real(one, write))[1])
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    page(tmp_path)
    assert (drawn, {path: path.read_bytes() for path in before}) == ([], before), "the same tables, the same page"
    table.loc[(table["metric"] == "avg_sim") & (table["vectors"] == "words"), "value"] += 0.5
    again(tmp_path, table)
    assert drawn == ["similarity-words"]
    assert (tmp_path / "figures/similarity-words.svg").read_bytes() != before[tmp_path / "figures/similarity-words.svg"]
    (tmp_path / "figures/mine.png").write_bytes(b"one's own")
    table.loc[table["measure"] == "shape", "value"] = np.nan
    assert "Shape of" not in again(tmp_path, table)
    assert not list((tmp_path / "figures").glob("shape-*")), "an earlier page's figures go"
    assert (tmp_path / "figures/mine.png").read_bytes() == b"one's own"


def test_a_font_that_is_installed_later_changes_the_png_and_not_the_svg(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[str] = []
    monkeypatch.setattr(fonts, "findSystemFonts", lambda: found)
    own = tmp_path / "out"
    write(own, classes=["否定", "肯定"])
    before = []
    for file in (None, write_font(tmp_path, name=f"Tiny Sans {tmp_path.name}", characters="否定肯")):
        found += [str(file)] if file else []
        for cached in (fonts._installed, fonts.fallbacks):
            cached.cache_clear()
        page(own)
        before.append({path.name: path.read_bytes() for path in (own / "figures").iterdir()})
    for cached in (fonts._installed, fonts.fallbacks):
        cached.cache_clear()
    changed = {name for name, written in before[0].items() if written != before[1][name]}
    assert changed == {name for name in before[0] if name.startswith("planes") and name.endswith(".png")} != set()


def test_one_point_few_points_and_missing_measures_are_said_first(tmp_path: Path) -> None:
    table = write(tmp_path)
    plain = again(tmp_path, table)
    assert "encoder, first, layer 0: all points are one" in plain
    assert "decoder, first" not in plain
    assert "dimensions (" not in plain
    table.loc[(table["checkpoint"] == "decoder") & (table["vectors"] == "first"), "n"] = 5
    lacking = (table["checkpoint"] == "decoder") & (table["measure"] == "shape")
    table.loc[lacking, "value"], table.loc[lacking, "note"] = np.nan, "points: 5, but this measure needs at least 25"
    text = again(tmp_path, table)
    assert "decoder: 5 points in 8 dimensions (first)." in text
    assert "decoder, first, words: no shape: points: 5, but this measure needs at least 25." in text
    assert text.index("What limits these results?") < text.index("<figure>")


def test_the_first_table_is_a_summary_of_the_last_layer_beside_twin_and_noise(tmp_path: Path) -> None:
    table = write(tmp_path)
    table["metric"] = table["metric"].replace({"two_nn_at_n": "a_1", "clusters_ami_label": "linear_separability"})
    table.loc[table["checkpoint"] == "encoder", "layer"] += 1  # of another depth
    text = again(tmp_path, table)
    assert text.index('<h2 id="summary">') < text.index("What limits these results?") < text.index("<figure>")
    rows = summary({"geometry": table})
    assert [(row["checkpoint"], row["vectors"], row["layer"], row["n"], row["d"]) for row in rows] == [
        ("encoder", "first", LAYERS, 40, 8),
        ("decoder", "first", LAYERS - 1, 40, 8),
    ]
    for row in rows:
        last = table[(table["checkpoint"] == row["checkpoint"]) & (table["layer"] == row["layer"])]
        last = last[last["vectors"] == "first"]
        for metric in ("a_1", "avg_sim", "linear_separability"):
            own, twin = (
                last[(last["metric"] == metric) & (last["step"].isna() == it)]["value"].item() for it in (0, 1)
            )
            assert row[metric] == {"value": own, "twin": twin, "noise": 0.25}
        assert "effective_rank" not in row, "not measured"
    assert summary({}) == []
    cells = rows_of(text, "How do the checkpoints differ at their last layer?")
    own = rows[0]["a_1"]
    assert cells[0][:3] == ["encoder", KINDS["first"], str(LAYERS)]
    shown = f'{own["value"]:.3f}<br><span class="soft">control {own["twin"]:.3f}<br>noise 0.250</span>'
    assert cells[0][3] == shown
    assert cells[0][-2:] == ["40", "8"]
    assert len(cells) == 2


def test_a_page_without_measures_and_what_an_analysis_lacked(tmp_path: Path) -> None:
    note = {"checkpoint": HOSTILE, "analysis": "attention", "note": "attention: MambaModel gives none"}
    named = {"checkpoints": (HOSTILE, "decoder"), "classes": [HOSTILE, "positive"]}
    write(tmp_path, tables=["frames", "planes"], notes=[note], **named)
    text = page(tmp_path).read_text("utf-8")
    assert "&lt;img src=x onerror=alert(1)&gt;: no attention: attention: MambaModel gives none." in text
    assert "<img" not in text
    assert "What are all metrics at the last layer?" not in text
    assert [name.split('"')[0] for name in text.split('<h2 id="')[1:]] == ["notes", "part-1", "reading"]
