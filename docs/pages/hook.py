"""Build the site: add the pages that are made from the code and from files outside docs/, and link to them."""

import posixpath
import re
from pathlib import Path

import reference
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
COPIED = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "DECISIONS.md": "project/decisions.md",
    "CHANGELOG.md": "project/changelog.md",
    "benchmarks/README.md": "project/benchmarks.md",
}
"""Files of the repository that are pages too."""
PAGES = {**COPIED, "benchmarks/": "project/benchmarks.md", "params.yaml": "reference/parameters.md"}
SOURCES = {page: file for file, page in COPIED.items()}
GENERATED = {
    "reference/command-line.md": reference.command_line,
    "reference/parameters.md": reference.parameters,
    "reference/metrics.md": reference.metrics,
    "reference/python.md": reference.python,
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that docs/ does not hold."""
    for page, write in GENERATED.items():
        files.append(File.generated(config, page, content=write()))
    for file, page in COPIED.items():
        files.append(File.generated(config, page, content=(ROOT / file).read_text("utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links between files of the repository into links between pages."""
    here = page.file.src_uri
    folder = posixpath.dirname(SOURCES.get(here, f"docs/{here}"))

    def link(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, match[1])) + "/" * match[1].endswith("/")
        there = PAGES.get(target) or target.removeprefix("docs/")
        return f"]({posixpath.relpath(there, posixpath.dirname(here) or '.')}"

    return re.sub(r"\]\(([\w./-]+)(?=[#)])", link, markdown)
