"""Hidden-state results on the page: every figure with its caption, and data that HTML cannot misread."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from isoscope.base.errors import InputError
from isoscope.base.kind import kind
from isoscope.platform.figures.style import ARM_COLOURS
from isoscope.platform.report.kind_section import show_kind
from isoscope.platform.results.study_tables import StoredTables, Tables
from report_material import Material

Inside = Callable[..., Path]
HOSTILE = "</script><script>alert(1)</script> & 'so' \"on\""


def shown(folder: Path, key: str = "a") -> dict[str, Any]:
    """Return what the page shows of a study of fusions in `folder`."""
    tables = Tables("fusion", StoredTables(folder / "tables"), [], [], confidence=0.95, power=0.8, margin=0.01)
    return show_kind("fusion", tables, folder, key=key, chapter=1, command="analyse")


def captions(folder: Path) -> dict[str, str]:
    """Return captions by the title in the picture, in order."""
    found = shown(folder)["figures"]
    assert all(f">{one.title}" in one.picture for one in found)
    return {one.caption: str(one.picture) for one in found}


def test_the_page_holds_explorer_phases_and_pictures(inside: Inside, material: Material) -> None:
    page = material.explored(inside(("geometry", "attention", "bars")))
    assert page.count('class="explorer"') == 1
    assert "Unstructured (8: 0–8), Maximum separation (18: 16–64)" in page
    for text in ("Geometry of [CLS] over training", "Entropy of each head", "The longest bars"):
        assert len(re.findall(rf"<figcaption><strong>Figure 1\.\d+\. {re.escape(text)}", page)) == 1
    assert page.count("<script>") == 1, "the page's and the explorer's"


def test_differences_stand_with_their_interval_or_a_dash(inside: Inside, material: Material) -> None:
    page = material.explored(inside())
    table = page.partition("<summary>Differences inside the models at the chosen epoch")[2].partition("</table>")[0]
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in table.split("<tr>")[2:]]
    assert cells == [
        [
            "Mean cosine, points of different sentences",
            "conv2d",
            "3",
            "additive",
            "0.5",
            "0.75",
            "+0.25",
            "[0.125, 0.375]",
            "1",
            "0.04",
            "0.2",
        ],
        ["Effective rank (dimensions)", "conv2d", "2", "additive", "0.5", "0.75", "+0.25", "–", "0", "–", "–"],
    ]


def test_tests_and_families_are_counted(inside: Inside, material: Material) -> None:
    page = material.explored(inside())
    counted = re.findall(
        r"(\d+) tests? in (\d+) famil.*?below 0.05 in (\d+) tests?, of (\d+) famil.*?at most ([\d.]+)", page
    )
    tests = [row for row in material.studies[0].comparison if row.p_holm is not None]
    below = [row for row in tests if (row.p_holm or 0.0) < 0.05]
    first, scores, own = counted
    families = [str(len({row.family for row in rows})) for rows in (tests, below)]
    assert scores == (str(len(tests)), families[0], str(len(below)), families[1], "0.15")
    assert first == own == ("1", "1", "1", "1", "0.05"), "on the first screen as in the section"


@pytest.mark.parametrize(
    "tables, said",
    [
        (
            ("geometry",),
            [
                "Geometry of [CLS] over training",
                "Mean cosine, points of different sentences, of [CLS], by layer",
                "Mean cosine of a word with itself in other sentences, of sampled words, by layer",
            ],
        ),
        (("planes", "frames"), ["Feature dynamics of conv2d-k5:", "Feature dynamics of additive:"]),
        (
            ("map",),
            [
                "Tokens of all arms after the embedding block, in a t-SNE map (first snapshot).",
                "Tokens of all arms after the embedding block, in a t-SNE map (chosen epoch).",
                "The same tokens in their first two principal components (first snapshot)",
                "The same tokens in their first two principal components (chosen epoch)",
            ],
        ),
        (("kernel_response",), ["Frequency response"]),
        (
            ("probing", "baselines", "phases"),
            [
                "In which phase of training does the label become linearly decodable?",
                "What a linear probe reads by layer: label.",
                "What a linear probe reads by layer: bigram shift.",
                "What a linear probe reads by layer: part of speech.",
            ],
        ),
    ],
)
def test_a_caption_says_what_is_shown(inside: Inside, tables: tuple[str, ...], said: list[str]) -> None:
    found = list(captions(inside(tables)))
    assert [caption[: len(start)] for caption, start in zip(found, said, strict=True)] == said


def test_the_data_is_the_same_and_no_sentence_ends_the_script(inside: Inside) -> None:
    folder = inside(sentences=[HOSTILE, "a", "b", "c"], classes=[HOSTILE, "positive"])
    (found,) = re.findall(r'<script type="application/json">(.*?)</script>', shown(folder)["extra"], re.S)
    assert not set("<>&") & set(found)
    assert json.loads(found) == json.loads((folder / "tables/explorer.json").read_text("utf-8"))


@pytest.mark.parametrize(
    "file",
    [
        "tables/explorer.json",
        "tables/phases.json",
        "tables/differences.parquet",
        "figures/heads.svg",
        "tables/attention.parquet",
    ],
)
def test_damaged_files_are_refused_in_a_line_that_says_what_to_do(inside: Inside, file: str) -> None:
    folder = inside()
    (folder / file).write_bytes((folder / file).read_bytes()[:-9])
    with pytest.raises(
        InputError, match=rf"{folder}: not what isoscope analyse wrote .*run: isoscope repro"
    ) as refused:
        shown(folder)
    assert "\n" not in str(refused.value)


def test_a_missing_figure_is_refused_too(inside: Inside) -> None:
    folder = inside()
    (folder / "figures/heads.svg").unlink()
    with pytest.raises(InputError, match="isoscope repro"):
        shown(folder)


def test_the_explorer_has_the_colours_of_the_figures() -> None:
    (colours,) = re.findall(r"COLOURS = (\[[^\]]+\])", kind("fusion").script or "")
    assert tuple(json.loads(colours)) == ARM_COLOURS
