"""Tables for papers: LaTeX with booktabs, and Markdown; a difference has the mark of its verdict."""

import math
from collections.abc import Callable
from typing import Any

import pandas as pd

# Columns of a table of arms with verdicts; other tables are shown whole.
SHOWN = (
    *("metric", "arm", "mean", "sd", "difference", "paired_interval_low", "paired_interval_high"),
    *("two_way_low", "two_way_high", "p_holm", "verdict_word"),
)
# Word of a verdict → mark of its difference.
MARKS = {"holds": "*", "does not": "=", "under-powered": "?", "no verdict": "n"}
# Rows of a table for a page of a paper.
MOST_ROWS = 200
_IN_LATEX = str.maketrans(
    {
        **{sign: f"\\{sign}" for sign in "&%$#_{}"},
        "\\": "\\textbackslash{}",
        "~": "\\textasciitilde{}",
        "^": "\\textasciicircum{}",
        "|": "\\textbar{}",
        "<": "\\textless{}",
        ">": "\\textgreater{}",
        '"': "\\textquotedbl{}",
        "−": "$-$",
        "–": "--",
        "\n": " ",
        "\r": " ",
        "`": "\\textasciigrave{}",
        "'": "\\textquotesingle{}",
        "-": "{-}",
        "[": "{[}",
        "]": "{]}",
    }
)
_IN_MARKDOWN = str.maketrans({sign: f"\\{sign}" for sign in "\\`*_{}[]<>|~#&$"} | {"\n": " ", "\r": " "})


def latex_escaped(text: str) -> str:
    """Return a text as LaTeX that typesets it: no command, comment, ligature or break of a row in it."""
    return "".join(sign if sign.isprintable() else " " for sign in text.translate(_IN_LATEX)).replace(",,", ",{},")


def latex(table: pd.DataFrame, title: str) -> str:
    """Return a table as LaTeX; it needs the packages booktabs and textcomp, and T1 fonts."""
    cells, right, told = _texts(table, latex_escaped, "\\textsuperscript{{{}}}")
    columns, caption = "".join("r" if one else "l" for one in right), latex_escaped(title)
    text = cells.to_latex(index=False, escape=False, column_format=columns, caption=caption)
    return text.replace("\\end{table}", f"\n{told}\n\\end{{table}}") if told else text


def markdown(table: pd.DataFrame, title: str) -> str:
    """Return a table as Markdown under its title."""
    cells, right, told = _texts(table, lambda text: text.translate(_IN_MARKDOWN), " ({})")
    rows = [[*cells], ["---:" if one else "---" for one in right], *cells.to_numpy().tolist()]
    lines = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return f"**{title.translate(_IN_MARKDOWN)}**\n\n{lines}\n" + (f"\n{told}\n" if told else "")


def _texts(table: pd.DataFrame, escaped: Callable[[str], str], marked: str) -> tuple[pd.DataFrame, list[bool], str]:
    """Return the shown cells as escaped text, whether each column has numbers, and what the marks mean."""
    judged = "verdict_word" in table
    words = list(table["verdict_word"] if judged else ())
    shown = table[[name for name in SHOWN if name in table]] if judged else table
    cells = shown.astype(object).map(lambda value: escaped(_cell(value)))
    if judged and "difference" in shown:
        cells["difference"] += [marked.format(escaped(MARKS[word])) if word in MARKS else "" for word in words]
    told = "; ".join(f"{escaped(mark)}: {word}" for word, mark in MARKS.items() if word in set(words))
    return cells.rename(columns=escaped), [pd.api.types.is_numeric_dtype(kind) for kind in shown.dtypes], told


def _cell(value: Any) -> str:
    missing = value is None or value is pd.NA or (isinstance(value, float) and not math.isfinite(value))
    return "–" if missing else f"{value:.4g}".replace("-", "−") if isinstance(value, float) else str(value)
