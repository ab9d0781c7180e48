"""The blocks of the pages run; the tutorial and the concepts print what they show.

A Python block that does not run here is named below, with the test that runs it or the reason.
"""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from transformers import PreTrainedTokenizerFast
from typer import Context, TyperException
from typer.main import get_command

from isoscope import plugins
from isoscope.platform.cli import app
from page_blocks import ROOT, Page
from pipeline_project import Project, copy_checkout
from probe_material import bert, pieces

RUN_WHOLE = ("docs/tutorial.md", "docs/concepts.md", "docs/runs.md", "docs/bundle.md")
PAGES = [str(path.relative_to(ROOT)) for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))]
TESTED_BY = {
    ("README.md", 'pipeline("text-classification"'): "docs/test_pages.py",
    ("docs/allocation.md", "add_callback"): "training/test_trainer_callback.py",
    ("docs/huggingface.md", "evaluate.evaluator("): "metrics/test_evaluate_modules.py",
    ("docs/huggingface.md", "get_peft_model"): "models/test_peft.py",
    ("docs/inside.md", 'isoscope.load("fusion")'): "e2e/test_inside.py",
    ("docs/penalties.md", "class WithPenalty(Trainer):"): "penalties/test_trainer.py",
    ("docs/plugins.md", "add_callback"): "training/test_trainer_callback.py",
}
"""Page and words of a block → the test that runs it."""
QUOTED = {
    ("docs/plugins.md", '@fusion("product")'): "product.py",
    ("docs/plugins.md", '@penalty("spread")'): "spread.py",
    ("docs/plugins.md", '@objective("piece_length")'): "piece_length.py",
    ("docs/plugins.md", '@observer("norms")'): "piece_length.py",
    ("docs/plugins.md", '@view("length_error")'): "piece_length.py",
}
"""Page and words of a block → the file of docs/examples/ that it quotes; tests/test_plugins.py runs it."""
NOT_RUN = {
    ("docs/dynamics.md", 'isoscope.load("dynamics")'): "needs three runs with an allocation, so minutes of training",
}
"""Page and words of a block → why it does not run."""
LISTED = {*TESTED_BY, *QUOTED, *NOT_RUN}


def entries(page: str, block: str) -> list[tuple[str, str]]:
    """Return the entries of the lists above that name this block."""
    return [entry for entry in LISTED if entry[0] == page and entry[1] in block]


def allocations() -> pd.DataFrame:
    """Return an allocation of two layers over three updates, in eight folds."""
    random, folds = np.random.default_rng(0), [f"fold_{number}" for number in range(8)]
    index = pd.MultiIndex.from_product([range(3), range(2), ["W1", "query"]], names=["update", "layer", "component"])
    table = pd.DataFrame(random.normal(size=(len(index), 8)), index, folds).reset_index()
    return table.assign(set="train", estimator="simpson", value=table[folds].sum(axis=1))


@pytest.fixture
def material(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the pages' blocks read: files below the working folder, and names that the text before a block defines."""
    monkeypatch.setattr(plugins.MEASURES, "own", {})
    monkeypatch.chdir(tmp_path)
    slices = pd.DataFrame({"set": "validation", "frequency": "rare", "context": "bigram", "component": ["W1", "query"]})
    tables = {
        "models/fusion/additive/seed-0/allocation.parquet": allocations(),
        "models/dynamics/causal-additive/seed-0/slices.parquet": slices.assign(value=[-1.0, -3.0]),
    }
    for file, table in tables.items():
        (tmp_path / file).parent.mkdir(parents=True)
        table.to_parquet(tmp_path / file)
    pieces(tmp_path)
    bert().save_pretrained(tmp_path / "my-bert")
    fast = PreTrainedTokenizerFast(tokenizer_file="tokenizer.json", pad_token="[PAD]", unk_token="[UNK]")
    fast.save_pretrained(tmp_path / "my-bert")
    points = torch.randn(24, 6, generator=torch.Generator().manual_seed(0), requires_grad=True)
    return {"points": points, "labels": torch.arange(24) % 2, "loss": torch.zeros(())}


@pytest.mark.parametrize("page", [page for page in PAGES if page not in RUN_WHOLE])
def test_python_blocks_run(page: str, material: dict[str, Any]) -> None:
    opened = Page(page, **material)
    run = [block.evaluate() for block in opened.blocks("python") if not entries(page, block.parsed)]
    assert run == [None] * len(run), "a block that fails raises"


def test_each_entry_of_the_lists_names_a_block() -> None:
    named = {}
    for page in PAGES:
        for block in Page(page).blocks("python"):
            named |= dict.fromkeys(entries(page, block.parsed), block.parsed)
    assert named.keys() == LISTED
    for (page, _), test in TESTED_BY.items():
        assert page in (ROOT / "tests" / test).read_text("utf-8")
    for entry, file in QUOTED.items():
        written = " ".join((ROOT / "docs/examples" / file).read_text("utf-8").split())
        lines = [line.strip() for line in named[entry].splitlines() if line.strip()]
        assert [line for line in lines if line.rstrip(". ") not in written and "…" not in line] == []


def commands(page: str) -> Iterator[list[str]]:
    """Yield the words of every `isoscope` command in a page's shell blocks, without where its output goes."""
    text = (ROOT / page).read_text("utf-8")
    for block in re.findall(r"^ *```(?:sh|bash)\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE):
        for line in block.replace("\\\n", " ").splitlines():
            if line.strip().startswith("isoscope "):
                yield shlex.split(re.split(r" 2?>| \| ", line)[0], comments=True)[1:]


def refusal(words: list[str]) -> str | None:
    """Return why the command line refuses these words, or None; runs nothing."""
    command, context = get_command(app), Context(get_command(app))
    try:
        while hasattr(command, "resolve_command"):
            name, command, words = command.resolve_command(context, words)
        command.make_context(name, words)
    except TyperException as error:
        return error.format_message()
    return None


@pytest.mark.parametrize("page", PAGES)
def test_commands_have_the_arguments_and_options_that_exist(page: str) -> None:
    assert {shlex.join(words): why for words in commands(page) if (why := refusal(words))} == {}


def test_a_wrong_command_is_refused() -> None:
    assert "No such option" in str(refusal(["train", "fusion", "--sed", "0"]))
    assert "No such command" in str(refusal(["trian"]))
    assert "Missing argument" in str(refusal(["search", "adopt"]))


FEW = """\
extraction: {every: 100, gradients: 2}
measures:
  {names: [anisotropy, similarity, classes], draws: 2, probes: {every: 100, folds: 2},
   perplexity: 5, map: 30, square: 20}
"""
"""Most of the tutorial's minutes are measures; tests/e2e/test_inside.py has all of them."""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of transformers' pipeline, in the reader's own process
def test_the_tutorial_prints_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the README's block classifies with the model that the tutorial trained (docs/tutorial.md, README.md)."""
    monkeypatch.chdir(tmp_path)
    tutorial = Page("docs/tutorial.md", Project(tmp_path, sources=ROOT / "src", mirrored=False))
    ran = 0
    for block in tutorial.document:
        if block.parsed.strip() == "isoscope repro":
            assert tutorial.project is not None
            tutorial.project.lay(FEW)
        ran += block.evaluate() is None
    assert ran > 15
    assert Path.cwd() == tmp_path / "my-study"
    Path("models/fusion").symlink_to("first")
    readme = Page("README.md")
    for block in readme.blocks("python"):
        block.evaluate()
    assert {found["label"] for found in readme.namespace["classify"]("the app is slow but friendly")} <= {
        "happy",
        "angry",
    }


def test_the_concepts_print_what_they_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    copy_checkout(tmp_path)
    assert Page("docs/concepts.md", Project(tmp_path, sources=ROOT / "src", mirrored=False)).run() > 5


@pytest.mark.slow
def test_the_page_of_runs_prints_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    copy_checkout(tmp_path)
    assert Page("docs/runs.md", Project(tmp_path, sources=ROOT / "src", mirrored=False)).run() == 12


def test_another_output_than_the_page_shows_fails(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\nprint('found: 3')\n```\n\n```text\nfound: 4\n```\n", "utf-8")
    with pytest.raises(Exception, match="found: 4"):
        Page(str(page)).run()
    page.write_text(page.read_text("utf-8").replace("4", "…"), "utf-8")
    assert Page(str(page)).run() == 2
