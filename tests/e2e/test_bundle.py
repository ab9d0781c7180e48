"""A figure leads back to its runs, and a bundle made here is a project elsewhere whose runs repeat bit by bit."""

import json
import re
import shutil
import zipfile
from hashlib import sha256
from pathlib import Path

import pytest

from isoscope.notebook import load
from isoscope.platform.runs.provenance import dvc_md5
from isoscope.platform.stages.bundle import CRATE, SUMS
from page_blocks import Page
from pipeline_project import ARMS, ROOT, Finished, Project

FIGURE = "reports/parts/fusion/figures/training.svg"
CONTEXT = "https://w3id.org/ro/crate/1.1/context"


@pytest.fixture(scope="module")
def bundled(project: Project) -> Path:
    said = json.loads(project.isoscope("bundle", "review.zip", "--json").out)
    assert (said["studies"], said["without_data"], said["scrubbed"]) == (["fusion"], [], [])
    return project.folder / "review.zip"


@pytest.fixture(scope="module")
def opened(bundled: Path, project: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The bundle as a project in an empty folder, with the sources that are in it."""
    there = project.at(tmp_path_factory.mktemp("elsewhere"))
    out = there.isoscope("open", str(bundled), "review").out
    assert out == "open: review: every hash is right; see review/reports/index.html\n"
    return Project(there.folder / "review", mirrored=False)


def traced(project: Project, file: str, code: int = 0) -> list[dict[str, object]]:
    return list(json.loads(project.isoscope("trace", file, "--json", code=code).out)["figures"])


def test_a_renamed_figure_leads_to_rows_runs_commit_and_command(project: Project) -> None:
    for form in ("svg", "png", "pdf"):
        project.isoscope("tables", "fusion", "--to", "paper", "--figures", form)
        renamed = shutil.move(project.folder / f"paper/training.{form}", project.folder / f"figure-2.{form}")
        (found,) = traced(project, str(renamed))
        assert (found["figure"], found["now"]) == ("fusion/training", "same")
        runs = {run["digest"]: run for run in found["runs"]}  # type: ignore[attr-defined]
        assert runs.keys() == {project.digest(arm) for arm in ARMS}
        first = runs[project.digest("additive")]
        assert first["command"] == "isoscope train fusion additive --seed 0"
        assert first["commit"] == project.records()[project.digest("additive")].attempts[0].git["commit"]


def test_every_figure_of_the_page_has_its_way_back_and_so_has_one_cut_out(project: Project) -> None:
    found = traced(project, "reports/index.html")
    assert {one["now"] for one in found} == {"same"}
    drawn = (project.folder / "reports/parts/fusion/figures").glob("*.svg")
    assert {one["figure"] for one in found} == {f"fusion/{file.stem}" for file in drawn}
    svgs = re.findall(r"<svg [^>]*data-source.*?</svg>", project.text("reports/index.html"), re.DOTALL)
    (project.folder / "cut.svg").write_text(svgs[0], "utf-8")
    assert len(traced(project, "cut.svg")) == 1


def test_other_rows_a_foreign_figure_and_no_project_are_said(project: Project, tmp_path: Path) -> None:
    """The controls."""
    text = project.text(FIGURE)
    digest = re.findall(r"rows=([0-9a-f]{64})", text)[0]
    (project.folder / "old.svg").write_text(text.replace(digest, "0" * 64), "utf-8")
    assert [one["now"] for one in traced(project, "old.svg")] == ["other"]
    (project.folder / "gone.svg").write_text(text.replace(digest, "0" * 64).replace("fusion/training", "a/b"), "utf-8")
    assert [one["now"] for one in traced(project, "gone.svg")] == ["missing"]
    (project.folder / "plain.svg").write_text(re.sub("<metadata>.*</metadata>", "", text, flags=re.DOTALL), "utf-8")
    assert traced(project, "plain.svg", code=1) == []
    assert "carries nothing" in project.isoscope("trace", "plain.svg", code=1).out
    assert "no such file" in project.refused("trace", "nothing.svg")
    shutil.copy(project.folder / FIGURE, tmp_path)
    assert "no project here" in project.at(tmp_path).isoscope("trace", "training.svg").out


def test_a_clone_names_the_runs_by_their_outputs(project: Project, tmp_path: Path) -> None:
    clone = project.copy(tmp_path / "clone", without=(".isoscope",), mirrored=False)
    (found,) = traced(clone, FIGURE)
    (first, _) = sorted(found["runs"], key=lambda run: run["arm"])  # type: ignore[call-overload]
    assert (first["arm"], first["commit"], first["digest"]) == ("additive", None, project.digest("additive"))


def test_tables_of_a_paper_have_each_arm_and_its_verdict(project: Project) -> None:
    for form, ending in (("latex", "tex"), ("markdown", "md"), ("csv", "csv")):
        project.isoscope("tables", "fusion", "--to", "paper", "--format", form)
        text = project.text(f"paper/comparison.{ending}")
        assert all(arm in text for arm in ARMS)
        assert "powered" in text, "one seed"
    assert r"\toprule" in project.text("paper/comparison.tex")
    assert "--format" in project.isoscope("tables", "fusion", "--to", "paper", "--format", "doc", code=2).err


def test_a_figure_that_is_not_of_its_tables_is_not_exported(project: Project) -> None:
    whole = project.text(FIGURE)
    try:
        digest = re.findall(r"rows=([0-9a-f]{64})", whole)[0]
        (project.folder / FIGURE).write_text(whole.replace(digest, "0" * 64), "utf-8")
        assert "not the figure of the tables" in project.refused(
            "tables", "fusion", "--to", "paper", "--figures", "svg"
        )
    finally:
        (project.folder / FIGURE).write_text(whole, "utf-8")


def test_equal_projects_give_equal_bytes_with_the_hash_of_every_file(project: Project, bundled: Path) -> None:
    project.isoscope("bundle", "again.zip")
    assert (project.folder / "again.zip").read_bytes() == bundled.read_bytes()
    with zipfile.ZipFile(bundled) as zipped:
        lines = [line.split("  ", 1) for line in zipped.read(SUMS).decode().splitlines()]
        sums = {name: digest for digest, name in lines}
        assert {*sums, SUMS} == {*zipped.namelist()}
        assert all(sha256(zipped.read(name)).hexdigest() == digest for name, digest in sums.items())
        crate = json.loads(zipped.read(CRATE))
        assert {one.date_time for one in zipped.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    known = {one["@id"]: one for one in crate["@graph"]}
    assert {name: known[name]["sha256"] for name in sums if name != CRATE and name in known} == {
        name: digest for name, digest in sums.items() if name != CRATE
    }
    assert {one["@id"] for one in known.values() if one["@type"] == "CreateAction"} >= {
        f"#{project.digest(arm)}" for arm in ARMS
    }
    held = {"params.yaml", "CITATION.cff", "reports/index.html", "models/fusion/conv2d/seed-0/predictions.parquet"}
    held |= {"data/processed/tiny/manifest.json", "texts/order.jsonl", "plugins/README.md", "dvc.lock"}
    held |= {f".isoscope/records/{project.digest(arm)}.jsonl" for arm in ARMS}
    assert held <= sums.keys()
    assert not [name for name in sums if name.endswith(".safetensors") or "__pycache__" in name or ".git/" in name]


def test_weights_go_along_if_they_are_asked_for(project: Project) -> None:
    project.isoscope("bundle", "weights.zip", "--study", "fusion", "--with", "weights")
    with zipfile.ZipFile(project.folder / "weights.zip") as zipped:
        assert [name for name in zipped.namelist() if name.endswith("model.safetensors")]


def test_what_is_wrong_is_said_in_a_line(project: Project, bundled: Path) -> None:
    assert "OUT review.zip: exists already" in project.refused("bundle", "review.zip")
    assert "exists already" in project.refused("bundle", "nowhere/../params.yaml")
    assert "--to params.yaml: is not a folder" in project.refused("tables", "fusion", "--to", "params.yaml")
    for words in (("tables", "fusion", "--to", "models/fusion"), ("bundle", "models/fusion/additive/new.zip")):
        assert "which the pipeline writes (dvc.yaml); give a separate folder" in project.refused(*words)
    assert "--to /proc/none: cannot be made (" in project.refused("tables", "fusion", "--to", "/proc/none")
    assert "no such study" in project.refused("bundle", "new.zip", "--study", "fusoin")
    (project.folder / "full").mkdir()
    (project.folder / "full/mine").touch()
    assert "holds something already" in project.refused("open", str(bundled), "full")
    assert not (project.folder / "new.zip").exists()


def test_data_without_a_licence_and_secrets_stay_here(finished: Finished, tmp_path: Path) -> None:
    project = finished.project.copy(tmp_path / "copy", mirrored=False)
    project.edit("variants/task/tiny.yaml", "CC0-1.0", "unknown")
    project.isoscope("prepare", "tiny")
    token = "hf_" + "aB3" * 10
    for name in ("mine.py", "secrets.py", "notes.txt"):
        (project.folder / "plugins" / name).write_text(f'"""Mine."""\nTOKEN = "{token}"\n', "utf-8")
    said = project.isoscope("bundle", "a.zip").out
    assert "without data files, as no licence allows them (the page may show some sentences): tiny" in said
    assert "secrets replaced in: plugins/mine.py, plugins/notes.txt, plugins/secrets.py" in said
    with zipfile.ZipFile(project.folder / "a.zip") as zipped:
        names = {name for name in zipped.namelist() if name.startswith(("data/", "texts/"))}
        assert names == {"data/processed/tiny/manifest.json", "data/processed/tiny/settings.json", "texts/README.md"}
        assert not [name for name in zipped.namelist() if token.encode() in zipped.read(name)]


def test_elsewhere_the_page_and_the_tables_are_there_without_training(opened: Project, project: Project) -> None:
    assert opened.text("reports/index.html") == project.text("reports/index.html")
    here, there = (load("fusion", project=one.folder) for one in (project, opened))
    assert there.table("comparison").equals(here.table("comparison"))
    assert there.view("training").figure() is not None
    assert opened.git("status", "--porcelain") == ""
    assert [one["now"] for one in traced(opened, FIGURE)] == ["same"]


def test_elsewhere_it_is_audited_and_compared(opened: Project, project: Project) -> None:
    """What a bundle lacks is a note, and damage is found."""
    found = json.loads(opened.isoscope("audit", "--json").out)
    assert found["sound"]
    assert [one["kind"] for one in found["findings"] if "SHA256SUMS" in one["line"]] == ["note"]
    same = opened.isoscope("diff", "models/fusion/conv2d", str(project.folder / "models/fusion/conv2d")).out
    assert "equal in every bit" in same
    assert "one side lacks checkpoints/" in same
    assert "its output is not here" in opened.isoscope("why", "fusion").out
    (table, *_) = sorted(opened.folder.glob("reports/parts/fusion/tables/*.parquet"))
    before = table.read_bytes()
    table.write_bytes(before[:-1])
    assert f"{table.relative_to(opened.folder)} has changed" in opened.isoscope("audit", code=1).out
    table.write_bytes(before)


def test_elsewhere_a_run_repeats_bit_by_bit(opened: Project, project: Project) -> None:
    assert not [*opened.folder.rglob("*.safetensors")]
    opened.isoscope("train", "fusion", "conv2d", "--seed", "0")
    assert opened.digest("conv2d") == project.digest("conv2d")
    assert dvc_md5(opened.output("conv2d")) == dvc_md5(project.output("conv2d"))
    found = json.loads(opened.isoscope("audit", "--json", code=1).out)["findings"]
    assert not [one for one in found if one["kind"] == "damage"], "the record has more lines"
    assert [one["line"].split("#")[0] for one in found if one["kind"] == "mismatch"] == [
        f"reports/index.html: record/{opened.digest('conv2d')[:12]}"
    ], "the page has the time of the first training"
    file = opened.folder / f".isoscope/records/{opened.digest('conv2d')}.jsonl"
    before = file.read_bytes()
    file.write_bytes(before.replace(b"t", b"u", 1))
    assert f"{file.name} has changed" in opened.isoscope("audit", code=1).out
    file.write_bytes(before)
    points = opened.output("conv2d") / "metrics.jsonl"
    before = points.read_bytes()
    points.write_bytes(before + before.splitlines(keepends=True)[-1])
    assert "metrics.jsonl has changed" in opened.isoscope("audit", code=1).out, "no later command adds to it"
    points.write_bytes(before)


def test_elsewhere_data_that_were_left_out_are_made_again_with_the_same_hash(opened: Project) -> None:
    folder = opened.folder / "data/processed/tiny"
    whole = dvc_md5(folder)
    for file in folder.rglob("*"):
        if file.is_file() and file.suffix != ".json":
            file.unlink()
    assert "run: isoscope prepare tiny" in opened.refused("train", "fusion", "additive", "--seed", "0")
    opened.isoscope("prepare", "tiny")
    assert dvc_md5(folder) == whole


@pytest.mark.filterwarnings("ignore")  # of the validator's own libraries
def test_the_bundle_is_a_workflow_run_crate(opened: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """By roc-validator, offline: the context of RO-Crate comes from `rocrate`, with the two terms of version 1.1."""
    services = pytest.importorskip("rocrate_validator.services", reason="roc-validator is not installed: make crate")
    import rocrate
    from rocrate_validator.utils.http import HttpRequester

    file = Path(rocrate.__file__).with_name("data") / "ro-crate.jsonld"
    context = file.read_text("utf-8").replace("https://bioschemas.org/terms/", "https://bioschemas.org/")

    class Answer:
        status_code, ok, url, text = 200, True, CONTEXT, context
        content, headers = context.encode(), {"Content-Type": "application/ld+json"}

        def json(self) -> object:
            return json.loads(self.text)

        def raise_for_status(self) -> None:
            pass

    def get(url: str, **_: object) -> Answer:
        assert url == CONTEXT, "nothing else is fetched"
        return Answer()

    monkeypatch.setattr(HttpRequester, "get", staticmethod(get), raising=False)

    def faults(folder: Path) -> list[str]:
        options = {"profile_identifier": "workflow-run-crate-0.5", "offline": True, "requirement_severity": "REQUIRED"}
        found = services.validate(services.ValidationSettings(rocrate_uri=str(folder), **options))
        return [str(issue.message) for issue in found.get_issues()]

    assert faults(opened.folder) == []
    crate = opened.text(CRATE)
    (opened.folder / CRATE).write_text(crate.replace('"programmingLanguage"', '"description"'), "utf-8")
    assert "programmingLanguage" in " ".join(faults(opened.folder)), "the control"
    (opened.folder / CRATE).write_text(crate, "utf-8")


def test_the_page_of_the_documentation_prints_what_it_shows(
    finished: Finished, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = finished.project.copy(tmp_path / "copy", mirrored=False)
    monkeypatch.chdir(project.folder)
    assert Page("docs/bundle.md", project).run() > 8


def test_how_to_cite_is_true() -> None:
    from isoscope import __version__
    from isoscope.platform.config.tree import read_yaml

    about = read_yaml(ROOT, Path("CITATION.cff"))
    assert (about["version"], about["license"]) == (__version__, "Apache-2.0")
    assert about["authors"] == [{"name": "isoscope contributors"}]
