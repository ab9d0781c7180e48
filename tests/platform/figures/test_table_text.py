"""Tables for papers: any name is typeset as it is, and a mark is that of the verdict in its row."""

import re

import pandas as pd
import pytest

from isoscope.platform.figures.table_text import MARKS, latex, latex_escaped, markdown

NASTY = [
    *(
        "50%",
        "a_b^c",
        "x & y",
        "#1",
        "$2$",
        "{",
        "}",
        r"\end{tabular}",
        r"\\",
        "~",
        "|",
        "<script>",
        "[2em]",
        "*",
        "--",
    ),
    *("``quoted''", ",,low", "?`", "line\nbreak", "tab\tstop", "größe", "否定", "−1", "\x1b[31m", '"', "'"),
]
"""Names that mean something to LaTeX, Markdown or a terminal, or that have letters beyond ASCII."""
WORDS = ["holds", "does not", "under-powered", "no verdict"]
COMPARISON = pd.DataFrame(
    {
        "arm": ["reference", *WORDS],
        "metric": "accuracy",
        "mean": 0.5,
        "difference": [None, 0.1, -0.002, 0.05, float("inf")],
        "verdict_word": [None, *WORDS],
        "tests": 3,
    }
)


def plain(text: str) -> str:
    """Return what LaTeX typesets of an escaped text, by the rules of LaTeX for these commands."""
    named = {
        "textbackslash": "\\",
        "textasciitilde": "~",
        "textasciicircum": "^",
        "textbar": "|",
        "textless": "<",
        "textgreater": ">",
        "textquotedbl": '"',
        "textasciigrave": "`",
        "textquotesingle": "'",
    }
    text = re.sub(r"\\(text\w+)\{\}", lambda found: f"\0{ord(named[found[1]])};", text).replace("$-$", "−")
    assert not re.search(r"(?<!\\)[&%$#_~^|<>]", text), "a sign that LaTeX would obey"
    assert not re.search(r"\\(?![&%$#_{}])", text), "a command or a break of the row"
    assert not re.search(r"--(?!-)|``|''|,,", text.replace("--", "–", 1) if "–" in text else text), "a ligature"
    text = re.sub(r"\\([&%$#_{}])", lambda found: f"\0{ord(found[1])};", text)
    text = text.replace("{", "").replace("}", "")  # groups
    return re.sub(r"\0(\d+);", lambda found: chr(int(found[1])), text)


@pytest.mark.parametrize("name", NASTY)
def test_latex_typesets_any_name_as_it_is(name: str) -> None:
    expected = re.sub(r"[\n\t\x1b]", " ", name)
    assert plain(latex_escaped(name)) == expected
    text = latex(pd.DataFrame({name: [name, "b"], "n": [1, 2]}), name)
    lines = text.splitlines()
    rows = [line for line in lines if line.endswith(r"\\")]
    assert len(rows) == 3, "a head and two rows"
    assert {len(re.findall(r"(?<!\\)&", row)) for row in rows} == {1}
    assert plain(rows[1].split(" & ")[0]) == expected if " & " not in name else True
    for begun in ("table", "tabular"):
        assert len(re.findall(rf"\\begin{{{begun}}}", text)) == len(re.findall(rf"\\end{{{begun}}}", text)) == 1
    assert [line for line in lines if line.endswith("rule")] == [r"\toprule", r"\midrule", r"\bottomrule"]
    bare = re.sub(r"\\[{}]", "", text)
    assert bare.count("{") == bare.count("}")


def test_the_rules_of_the_test_find_an_unescaped_name() -> None:
    """The control."""
    for name in ("50%", "a_b", r"\end", "a--b", "``"):
        with pytest.raises(AssertionError):
            plain(name)


@pytest.mark.parametrize("name", NASTY)
def test_markdown_has_a_cell_per_value_whatever_the_names(name: str) -> None:
    text = markdown(pd.DataFrame({name: [name, "b"], "n": [1, 2]}), "title")
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert [len(re.findall(r"(?<!\\)\|", row)) for row in rows] == [3] * 4
    cell = rows[2].split(" | 1")[0].removeprefix("| ")
    assert re.sub(r"\\(.)", r"\1", cell) == re.sub(r"[\n\r]", " ", name)


def test_marks_are_those_of_the_verdicts_and_numbers_have_a_minus() -> None:
    text = latex(COMPARISON, "comparison")
    marks = re.findall(r"([\d.–-]+|\$-\$0.002)\\textsuperscript\{(\S+?)\}(?: &)", text)
    assert [mark.strip("{}") for _, mark in marks] == [MARKS[word] for word in WORDS]
    told = markdown(COMPARISON, "comparison")
    rows = {row.split(" | ")[1]: row for row in told.splitlines() if "accuracy" in row}
    assert "−0.002 (=)" in rows["does not"]
    assert "(" not in rows["reference"], "no verdict, no mark"
    assert "tests" not in told, "columns that no paper shows"
    assert told.endswith("\\*: holds; =: does not; ?: under-powered; n: no verdict\n")


def test_no_mark_is_explained_that_is_not_there() -> None:
    assert "under-powered" not in latex(COMPARISON.iloc[:2], "comparison")
    other = pd.DataFrame({"difference": [0.5], "group": ["holds"]})
    assert "textsuperscript" not in latex(other, "t")
    assert "group" in latex(other, "t"), "a table without verdicts is whole"
