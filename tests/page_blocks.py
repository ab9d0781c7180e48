"""Run the fenced blocks of a page in order, as a reader does, and compare the output that the page shows.

- `sh` runs in the project's folder, `python` in one namespace for the whole page. A last line `cd FOLDER` leads the
  rest of the page there, its Python too.
- `yaml` whose first line is a comment with a path (`# variants/task/bank.yaml`) is written to that file.
- `text` is the output of the block before it; `…` stands for anything.
"""

import contextlib
import doctest
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sybil import Document, Example
from sybil.parsers.markdown import CodeBlockParser

from pipeline_project import Project

ROOT = Path(__file__).parents[1]
CHECKER = doctest.OutputChecker()


class Page:
    """A page of the documentation; its blocks share a project and a namespace of Python."""

    def __init__(self, file: str, project: Project | None = None, **namespace: Any) -> None:
        self.file = file
        self.project = project
        self.namespace = namespace
        self.printed = ""
        runners = {"sh": self.run_shell, "python": self.run_python, "yaml": self.write_yaml, "text": self.compare}
        parsers = (CodeBlockParser(language, evaluator) for language, evaluator in runners.items())
        self.document = Document.parse(str(ROOT / file), *parsers)

    def blocks(self, language: str) -> Iterator[Example]:
        """Yield the page's blocks of a language, each to be evaluated."""
        return (block for block in self.document if block.region.lexemes["arguments"] == language)

    def run(self) -> int:
        """Run every block and return how many there are."""
        return sum(block.evaluate() is None for block in self.document)

    def run_shell(self, block: Example) -> None:
        assert self.project is not None
        self.printed = self.project.shell(block.parsed).out
        if (last := block.parsed.strip().rpartition("\n")[2]).startswith("cd "):
            self.project = self.project.at(self.project.folder / last.removeprefix("cd "))
            os.chdir(self.project.folder)

    def run_python(self, block: Example) -> None:
        code = compile("\n" * block.line + block.parsed, self.file, "exec")
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(code, self.namespace)
        self.printed = printed.getvalue()

    def write_yaml(self, block: Example) -> None:
        assert self.project is not None
        first = block.parsed.partition("\n")[0]
        assert first.startswith("# "), f"{self.file}:{block.line}: name the file in the first line"
        place = self.project.folder / first.removeprefix("# ")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(block.parsed, "utf-8")

    def compare(self, block: Example) -> str | None:
        """Return what differs, or None."""
        expected, flags = block.parsed.replace("…", "..."), doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        if CHECKER.check_output(expected, self.printed, flags):
            return None
        return CHECKER.output_difference(doctest.Example("", expected), self.printed, flags)
