"""`isoscope geometry`: a page for any checkpoint and any sentences, outside a project, without repeated work."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import torch
from safetensors.torch import load_file

import warm
from browser import opened
from isoscope.platform.cli import main
from isoscope.platform.report.checkpoint_page import read_tables
from isoscope.platform.runs.locks import writing
from isoscope.studies.geometry.views import VIEWS
from probe_material import bert, gpt2, save, sentences
from struck_views import wrong

PLUGIN = """\
from isoscope.plugins import measure


@measure("size")
def size(cell):
    return {"points": float(cell.n)}
"""
ROOT = Path(__file__).parents[2]
OWN = ("--text", "reviews.csv", "--column", "review")
FEW = ("--sentences", "40", "--words", "40", "--subsample", "16", "--draws", "3", "--threads", "1")
SOME = ("--measure", "anisotropy", "--measure", "similarity")
# Not by a None among the modules: SciPy takes that for torch itself.
BARRED = """
class Barred:
    def find_spec(self, name, *_):
        if name in ("torch", "transformers"):
            raise ImportError(f"{name} was imported")
sys.meta_path.insert(0, Barred())
"""


def isoscope(folder: Path, *words: str, code: int = 0, before: str = "") -> subprocess.CompletedProcess[str]:
    """The command line in a folder; `before` is run in the same process first, which then starts without libraries."""
    script = f"import sys; sys.argv[0] = 'isoscope'\n{before}\nfrom isoscope.platform.cli import main\nmain()"
    command = [sys.executable, "-c", script] if before else [warm.binaries() / "isoscope"]
    done = subprocess.run(
        [*command, *words], cwd=folder, capture_output=True, text=True, check=False, timeout=300,
        env={**os.environ, "ISOSCOPE_OWN_TREE": "1", "PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two checkpoints, an encoder and a decoder, and sentences; a page of both."""
    folder = save(tmp_path_factory.mktemp("anywhere"), encoder=bert(), decoder=gpt2())
    sentences().to_pandas().rename(columns={"sentence": "review"}).to_csv(folder / "reviews.csv", index=False)
    isoscope(folder, *command())
    return folder


def command(*more: str) -> tuple[str, ...]:
    return ("geometry", "encoder", "decoder", *OWN, "--labels", "label", "--out", "page", *FEW, *SOME, *more)


def test_a_page_of_an_encoder_and_a_decoder(place: Path) -> None:
    table = pd.read_parquet(place / "page/geometry.parquet")
    assert set(table["checkpoint"]) == {"encoder", "decoder"}
    assert set(table["vectors"]) == {"first", "last", "mean", "words"}
    assert set(table["layer"]) == {0, 1, 2}
    assert set(table["snapshot"]) == {"checkpoint", "random"}
    # A decoder's first token has seen no other, so that it is looked at only where it is asked for.
    assert set(table.loc[table["checkpoint"] == "decoder", "vectors"]) == {"last", "mean", "words"}
    for name in ("frames", "probing", "bars"):
        kinds = pd.read_parquet(place / f"page/{name}.parquet").groupby("checkpoint")["vectors"].unique()
        assert {one: sorted({*found} - {"words"}) for one, found in kinds.items()} == {
            "decoder": ["last", "mean"],
            "encoder": ["first", "mean"],
        }
    for name in ("attention", "cosines", "token_cosines", "dimensions", "neighbours", "decoding", "spectrum"):
        found = pd.read_parquet(place / f"page/{name}.parquet")
        assert set(found["checkpoint"]) == {"encoder", "decoder"}
        assert set(found["snapshot"]) == {"checkpoint", "random"}
    said = (place / "page/index.html").read_text("utf-8")
    assert "decoder: first and second principal component of the last token" in said
    assert "principal component of the first token ([CLS] of an encoder)" in said
    whole = table[(table["checkpoint"] == "encoder") & (table["vectors"] == "mean") & ~table["degenerate"]]
    assert whole["value"].notna().mean() > 0.95
    with opened(place / "page/index.html") as seen:
        assert seen.page.locator("figure svg").count() >= 25
        links = seen.page.locator("nav a").evaluate_all("all => all.map(one => one.getAttribute('href'))")
        assert {"#summary", *(f"#part-{place}" for place in range(1, 11))} <= {*links}
        assert all(seen.page.locator(link).count() == 1 for link in links)
        assert seen.page.locator("tbody tr").count() > 50
        assert seen.requests == []
        assert seen.complaints == []


def test_a_second_call_imports_no_transformers_and_computes_nothing(place: Path) -> None:
    tables = {path.name: path.read_bytes() for path in (place / "page").glob("*.*")}
    made = {path: path.stat().st_mtime_ns for path in (place / "page/cache").rglob("*") if path.is_file()}
    isoscope(place, *command(), before=BARRED)
    assert {path.name: path.read_bytes() for path in (place / "page").glob("*.*")} == tables
    assert {path: path.stat().st_mtime_ns for path in (place / "page/cache").rglob("*") if path.is_file()} == made
    # The control: without the cache that import is needed.
    assert "torch was imported" in isoscope(place, *command("--seed", "3"), before=BARRED, code=1).stderr


def test_a_measure_added_is_the_only_one_computed(place: Path) -> None:
    (place / "size.py").write_text(PLUGIN, "utf-8")
    made = set((place / "page/cache/tables").iterdir())
    isoscope(place, *command("--plugin", "size.py", "--measure", "size"), before=BARRED)
    new = set((place / "page/cache/tables").iterdir()) - made
    assert len(new) == 2, "one for each checkpoint"
    assert "points" in set(pd.read_parquet(place / "page/geometry.parquet")["metric"])
    shown = (place / "page/index.html").read_text("utf-8")
    assert "Further measures of the first token ([CLS] of an encoder), by layer." in shown
    assert (place / "page/figures/further-words.svg").is_file()


WRONG = {
    "latin.txt": "fine\ncaf\xe9\n",
    "few.txt": "one\ntwo\n",
    "lists.jsonl": '{"text": "one", "l": [1]}\n',
    "lists.csv": 'text,l\none,"[1, 2]"\ntwo,[1]\n',
    "vision/config.json": '{"model_type": "vit", "num_hidden_layers": 2}',
}


@pytest.fixture(scope="module")
def wrong_files(place: Path) -> Path:
    broken = bert()
    broken.encoder.layer[0].output.dense.weight.data[0, 0] = float("nan")
    save(place, broken=broken)
    (place / "vision").mkdir()
    for name, text in WRONG.items():
        (place / name).write_text(text, "latin-1")
    return place


@pytest.mark.parametrize(
    "words, said",
    [
        (("geometry", "nowhere", *OWN, "--out", "p"), "and there is no folder nowhere here"),
        (("geometry", "./nowhere", *OWN, "--out", "p"), "checkpoint ./nowhere: no such folder"),
        (("geometry", "encoder", "--text", "none.csv", "--out", "p"), "none.csv: no such file"),
        (("geometry", "encoder", "--text", "reviews.csv", "--out", "p"), "no column 'text' (or 'sentence'; name it "),
        (("geometry", "encoder", "--text", "latin.txt", "--out", "p"), "line 2, byte 4: 0xe9 is not UTF-8"),
        (("geometry", "encoder", "--text", "few.txt", "--out", "p"), "2 different sentences in 2 rows; at least 4 "),
        (("geometry", "encoder", "--text", "lists.jsonl", "--labels", "l", "--out", "p"), "line 1: 'l' is [1]; "),
        (("geometry", "encoder", "--text", "lists.csv", "--labels", "l", "--out", "p"), "column 'l' holds lists"),
        (("geometry", "decoder", *OWN, "--out", "p", "--vectors", "first"), "--vectors first: it is a decoder: its "
         "first token attends to no other token, so it carries no information about the sentence; use last or mean"),
        (("geometry", "encoder", "--text", "few.txt", "--labels", "x", "--out", "p"), "plain text and has no columns"),
        (("geometry", "encoder", *OWN, "--out", "encoder"), "contains other files than"),
        (("geometry", "encoder", *OWN, "--out", "reviews.csv/p"), "reviews.csv is not a writable folder"),
        (("geometry", "encoder", *OWN, "--out", "p", "--measure", "classes"), "name their column with --labels"),
        (("geometry", "vision", *OWN, "--out", "p"), "not a text transformer"),
        (("geometry", "broken", *OWN, "--out", "p"), "NaN or infinity"),
        (("geometry", "encoder", *OWN, "--out", "p", "--measure", "isotrophy"), "--measure isotrophy: expected"),
        (("geometry", "encoder", *OWN, "--out", "p", "--vectors", "cls"), "--vectors cls: expected"),
        (("geometry", "encoder", *OWN, "--out", "p", "--analysis", "sizes"), "--analysis sizes: expected measures"),
    ],
)  # fmt: skip
def test_wrong_input_is_one_line(
    wrong_files: Path,
    words: tuple[str, ...],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(wrong_files)
    monkeypatch.setenv("ISOSCOPE_OWN_TREE", "1")
    monkeypatch.setattr(sys, "argv", ["isoscope", *words])
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main()
    (line,) = capsys.readouterr().err.splitlines()
    assert ended.value.code == 2
    assert said in line
    assert not any((wrong_files / "p").glob("*.html"))


def test_every_figure_of_checkpoints_survives_tables_without_numbers(place: Path, pytestconfig: pytest.Config) -> None:
    facts = json.loads((place / "page/manifest.json").read_text("utf-8"))
    assert wrong(VIEWS, read_tables(place / "page", facts), exhaustive=pytestconfig.getoption("--exhaustive")) == []


def test_a_second_command_on_the_same_page_is_refused(place: Path) -> None:
    before = {path: path.read_bytes() for path in (place / "page").glob("*.*")}
    with writing(place / "page", called="it"):
        said = isoscope(place, *command("--seed", "5"), code=2).stderr.splitlines()[-1]
    assert f"--out page: process {os.getpid()} is writing there" in said
    assert {path: path.read_bytes() for path in (place / "page").glob("*.*")} == before


def test_a_folder_of_pickles_is_converted_and_looked_at(place: Path, tmp_path: Path) -> None:
    given = tmp_path / "given"
    shutil.copytree(place / "encoder", given)
    torch.save(load_file(given / "model.safetensors"), given / "pytorch_model.bin")  # noqa: TID251 - as others give it
    (given / "model.safetensors").unlink()
    shutil.copyfile(place / "reviews.csv", tmp_path / "reviews.csv")
    asked = (*OWN, "--out", "page", *FEW, "--analysis", "measures")
    refused = isoscope(tmp_path, "geometry", "given", *asked, code=2).stderr
    assert refused.endswith(f"convert them: isoscope convert {given} OUT\n")
    done = json.loads(isoscope(tmp_path, "convert", "given", "out", "--json").stdout)
    assert done == {"out": "out", "converted": ["weights: 39 tensors of pytorch_model.bin, now safetensors"]}
    isoscope(tmp_path, "geometry", "out", *asked, *SOME[:2])
    manifest = json.loads((tmp_path / "page/manifest.json").read_text())
    assert manifest["about"] == {"out": ["weights: fp32", "last layer: the model has no final norm"]}
    assert "weights: fp32<br>last layer: the model has no final norm" in (tmp_path / "page/index.html").read_text()
    own, other = (pd.read_parquet(one / "page/geometry.parquet") for one in (tmp_path, place))
    keys = ["layer", "vectors", "metric"]
    both = own[own["step"].notna()].merge(other[(other["checkpoint"] == "encoder") & other["step"].notna()], on=keys)
    assert len(both) == own["step"].notna().sum()
    assert both["value_x"].equals(both["value_y"])
