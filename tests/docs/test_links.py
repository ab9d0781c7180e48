"""Links between the pages: each leads to a page and heading that exist, and to what its label announces."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from markdown.extensions.toc import slugify

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "benchmarks/README.md"])
LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]+)\)")
LABELLED = re.compile(r"(?:^|[.:;(] )([A-Z][^.:;(|\[\]]{3,60}): \[[^\]]*\]\(([^)\s]+)\)")


class Link(NamedTuple):
    """A link to a file of the repository, with its heading, or to a heading of its own page."""

    page: Path
    target: Path
    anchor: str


def without_code(page: Path) -> str:
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    return text.replace("\n> ", "\n")


def link(page: Path, address: str) -> Link | None:
    file, _, anchor = address.partition("#")
    return None if re.match(r"\w+:", address) else Link(page, (page.parent / file).resolve() if file else page, anchor)


def links(page: Path) -> Iterator[Link]:
    for found in LINK.finditer(without_code(page)):
        if one := link(page, found[2]):
            yield one


def headings(page: Path) -> list[str]:
    found = re.findall(r"^#+ (.*)$", without_code(page), flags=re.MULTILINE)
    return [re.sub(r"[`*]", "", LINK.sub(r"\1", one)).strip() for one in found]


def on_github(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file_and_a_heading_on_the_site_and_on_github(page: Path) -> None:
    for one in links(page):
        assert one.target.exists(), one
        if one.anchor:
            shown = headings(one.target)
            assert one.anchor in {slugify(heading, "-") for heading in shown}, one
            assert one.anchor in set(map(on_github, shown)), one


def said(page: Path) -> Iterator[tuple[str, Link]]:
    """Yield the labels `Means and intervals: [page](page.md)` of a page with their links."""
    for found in LABELLED.finditer(" ".join(without_code(page).split())):
        if one := link(page, found[2]):
            yield found[1], one


def stems(label: str) -> list[str]:
    return [word[:6] for word in re.findall(r"[a-z]{7,}", label.lower())]


def test_a_page_has_the_words_of_the_label_that_leads_to_it() -> None:
    """`Means, intervals and verdicts: [reliability](…)` led to a page about killed processes, without either word."""
    found = [(label, one) for page in PAGES for label, one in said(page) if one.target.suffix == ".md"]
    assert len(found) > 10
    for label, one in found:
        text = one.target.read_text("utf-8").lower()
        of = stems(label)
        assert len(of) < 2 or any(word in text for word in of), (label, one)
