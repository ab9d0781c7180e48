"""The documentation builds without a warning, is readable from disk, and shows every public name with its docstring."""

import html
import os
import re
import subprocess
import sys
from collections.abc import Generator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from filelock import FileLock
from typer.main import get_command

from browser import opened
from isoscope.platform.cli import app
from isoscope.platform.config.kinds import json_schema
from isoscope.platform.config.tree import read_yaml

ROOT = Path(__file__).parents[2]
INTERNAL = {"isoscope.platform.cli", "isoscope.platform.report"}
"""Modules whose `__all__` is for the package itself."""
ELEMENTS = {
    *("html", "head", "title", "meta", "link", "body", "header", "main", "nav", "article", "footer", "div", "span"),
    *("form", "input", "label", "button", "svg", "path", "img", "a", "p", "ul", "ol", "li", "h1", "h2", "h3", "h4"),
    *("table", "thead", "tbody", "tr", "th", "td", "code", "pre", "em", "strong", "small", "blockquote"),
}
LOADED = re.compile(
    r"(?:<(?:script|img|iframe|source|video|audio)\b[^>]*\bsrc=|<link\b[^>]*\bhref=|url\(|@import )"
    r"\s*[\"']?((?:https?:)?//[^\"')\s>]+)"
)
"""Addresses on other machines that a page or a style sheet makes a browser request; no link that a reader clicks."""


@pytest.fixture(scope="module")
def reference() -> Generator[ModuleType]:
    """The module that writes the reference pages."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "docs/pages")
        yield import_module("reference")
        sys.modules.pop("reference")


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the site, built as `make docs` does; one process builds it for all."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "popen" in base.name else base
    with FileLock(shared / "site.lock"):
        if not (shared / "site").exists():
            build = (sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(shared / "site"))
            environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
            done = subprocess.run(build, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
            assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return shared / "site"


def test_every_page_of_docs_is_in_the_navigation(site: Path) -> None:
    named = re.findall(r"[\w/-]+\.md", str(read_yaml(ROOT, Path("mkdocs.yml"))["nav"]))
    written = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    assert written <= set(named)
    assert all((site / page).with_suffix(".html").is_file() for page in named)


def test_no_page_loads_anything_from_outside(site: Path) -> None:
    files = [file for suffix in ("html", "css") for file in site.rglob(f"*.{suffix}")]
    assert len(files) > 20
    found = {str(file.relative_to(site)): LOADED.findall(file.read_text("utf-8")) for file in files}
    assert {name: addresses for name, addresses in found.items() if addresses} == {}


@pytest.mark.parametrize(
    "text",
    [
        '<script src="https://cdn.example.org/x.js"></script>',
        '<link rel="stylesheet" href="//fonts.example.org/css">',
        "<style>@import 'https://example.org/a.css'; </style>",
        "src: url(https://example.org/font.woff2)",
        "<img src='http://example.org/x.png'>",
    ],
)
def test_an_address_that_a_page_loads_is_found_and_a_link_is_not(text: str) -> None:
    assert LOADED.search(text)
    assert not LOADED.search('<a href="https://example.org">a paper</a><img src="images/x.svg">')


def test_lists_and_code_are_not_plain_text_and_plain_text_is_no_element(site: Path) -> None:
    """GitHub and the site read nested lists and code in lists alike; a `<name>` outside of code would not be seen."""
    for page in site.rglob("*.html"):
        text = re.sub(r"<script.*?</script>", "", page.read_text("utf-8"), flags=re.DOTALL)
        assert not re.search(r"<p>[^<]*(?:```|\n- )", text), page
        assert {*re.findall(r"<([a-z][\w-]*)", text)} <= ELEMENTS, page


@pytest.mark.chromium
def test_the_search_works_from_disk(site: Path) -> None:
    with opened(site / "results" / "fusion.html") as seen:
        seen.page.keyboard.press("/")
        seen.page.get_by_role("textbox", name="Search").press_sequentially("participation_ratio")
        link = seen.page.locator(".md-search-result__link").first
        link.wait_for()
        assert "reference/python.html" in str(link.get_attribute("href"))
        assert [address for address in seen.requests if not address.startswith(("file:", "data:", "about:"))] == []
        assert seen.complaints == []


def test_every_module_with_public_names_is_on_the_reference_page(reference: ModuleType) -> None:
    files = {file for file in (ROOT / "src").rglob("*.py") if re.search(r"^__all__\b", file.read_text("utf-8"), re.M)}
    places = {".".join(file.relative_to(ROOT / "src").with_suffix("").parts) for file in files}
    found = {place.removesuffix(".__init__") for place in places}
    assert found - INTERNAL <= reference.PUBLIC.keys()
    assert found >= INTERNAL


def words(text: str) -> str:
    """Return the words of HTML or Markdown, without what formats them."""
    return re.sub(r"[`*\\]|\s+", " ", html.unescape(re.sub(r"<[^>]*>", "", text))).replace(" ", "")


def test_every_public_name_is_on_the_page_with_its_docstring(site: Path, reference: ModuleType) -> None:
    page = (site / "reference/python.html").read_text("utf-8")
    _, *parts = re.split(r'<a id="([\w.]+)"></a>', page)
    shown = {name: words(text) for name, text in zip(parts[::2], parts[1::2], strict=True)}
    assert {"isoscope.load", "isoscope.geometry", "isoscope.geometry.anisotropy"} <= shown.keys()
    lacking = []
    for module, listed in reference.PUBLIC.items():
        package = import_module(module)
        for name in listed or package.__all__:
            about = getattr(package, name).__doc__
            first = words((about or "").partition("\n\n")[0].replace("<", "&lt;"))
            if not first or first not in shown.get(f"{reference.SHOWN.get(module, module)}.{name}", ""):
                lacking.append(f"{module}.{name}")
    assert lacking == []


def test_every_command_and_parameter_is_on_its_page(site: Path) -> None:
    page = (site / "reference/command-line.html").read_text("utf-8")
    commands = get_command(app).commands  # type: ignore[attr-defined]
    assert [name for name in commands if f"isoscope {name}" not in page] == []
    page = html.unescape((site / "reference/parameters.html").read_text("utf-8"))
    kinds = json_schema()["$defs"]
    fields = {field for kind in kinds.values() for field in kind.get("properties", {}) if field != "kind"}
    assert [field for field in fields if not re.search(rf"\b{field}\b", page)] == []
