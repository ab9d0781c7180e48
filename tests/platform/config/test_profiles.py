"""Profiles are merged into params.yaml, keep its comments, and can be undone without loss."""

import re
import subprocess
from pathlib import Path

import pytest

from isoscope.base.errors import InputError
from isoscope.platform.config.across_studies import check_all
from isoscope.platform.config.agreement import check_agreement
from isoscope.platform.config.explain import Faults
from isoscope.platform.config.load import Configuration
from isoscope.platform.config.profiles import apply, drop, known, laid_over, restore
from isoscope.platform.config.tree import merge, parse_yaml, read_yaml

ROOT = Path(__file__).parents[3]
COMMANDS = {"prepare", "geometry", "train", "states", "analyse", "compare"} | {
    "report",
    "repro",
    "search",
}


@pytest.fixture
def project(project: Path) -> Path:
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "start"]):
        subprocess.run(["git", *command], cwd=project, check=True)
    return project


def test_a_profile_changes_its_numbers_and_keeps_every_comment_beside_others(project: Path) -> None:
    before = (project / "params.yaml").read_text()
    difference = apply(project, "minilm")
    after = (project / "params.yaml").read_text()
    assert "+- sst2" in difference
    assert Configuration(project).cell("fusion", "fft_residual").cell.model.encoder.kind == "pretrained"
    kept = [line for line in before.splitlines() if line.lstrip().startswith("#")]
    assert all(line in after for line in kept)
    assert "batch_size: 32                # examples per update" in after


def test_a_profile_fits_lists_in_a_line_too_and_an_empty_one_changes_not_a_byte() -> None:
    """`dvc exp run -S` puts lists into lines of their own, and comments between a key and its list."""
    as_dvc = (ROOT / "params.yaml").read_text("utf-8")
    assert laid_over(as_dvc, {}) == as_dvc
    in_a_line = r"tasks: [sentiment, reordered] \1"
    text = re.sub(r"^tasks:( +#.*\n)- sentiment\n- reordered\n", in_a_line, as_dvc, flags=re.MULTILINE)
    assert as_dvc != text
    after, before = (parse_yaml(laid_over(one, {"tasks": ["sst2"]}), "params") for one in (as_dvc, text))
    assert after == before
    assert after["tasks"] == ["sst2"]


def test_a_changed_params_file_is_not_overwritten(project: Path) -> None:
    path = project / "params.yaml"
    path.write_text(path.read_text().replace("epochs: 8", "epochs: 9"))
    with pytest.raises(InputError, match="not committed"):
        apply(project, "minilm")
    assert "epochs: 9" in path.read_text()


def test_reset_restores_the_committed_file_and_keeps_the_replaced_one(project: Path) -> None:
    path = project / "params.yaml"
    before = path.read_text()
    apply(project, "minilm")
    path.write_text(path.read_text().replace("epochs: 2", "epochs: 77"))
    assert "-  epochs: 77" in restore(project)
    assert path.read_text() == before
    assert "epochs: 77" in (project / ".isoscope/params.before-reset.yaml").read_text()
    assert restore(project) == ""


def test_a_file_that_is_no_text_can_be_restored(project: Path) -> None:
    path, spoilt = project / "params.yaml", (project / "params.yaml").read_bytes() + b"# \xe9\n"
    path.write_bytes(spoilt)
    with pytest.raises(InputError, match="isoscope profile --reset"):
        apply(project, "minilm")
    assert "-# ?" in restore(project)
    assert (project / ".isoscope/params.before-reset.yaml").read_bytes() == spoilt
    assert path.read_bytes() + b"# \xe9\n" == spoilt


def test_a_committed_file_that_is_no_text_is_one_line_and_can_be_restored(project: Path) -> None:
    path = project / "params.yaml"
    path.write_bytes(committed := path.read_bytes() + b"# \xe9\n")
    subprocess.run(["git", "commit", "-q", "-a", "-m", "no text"], cwd=project, check=True)
    with pytest.raises(InputError, match=r"^params\.yaml: .*not YAML"):
        apply(project, "minilm")
    path.write_text("training: {}\n")
    assert "+# ?" in restore(project)
    assert path.read_bytes() == committed


def test_a_profile_that_does_not_fit_changes_nothing(project: Path) -> None:
    (project / "profiles/broken.yaml").write_text("training:\n  epoch: 2\n")
    before = (project / "params.yaml").read_text()
    with pytest.raises(InputError, match="did you mean 'epochs'"):
        apply(project, "broken")
    assert (project / "params.yaml").read_text() == before


@pytest.mark.parametrize("name", [*known(ROOT)])
def test_the_check_merges_a_profile_as_it_is_applied(name: str) -> None:
    params, overlay = (read_yaml(ROOT, Path(file)) for file in ("params.yaml", known(ROOT)[name]))
    applied = parse_yaml(laid_over((ROOT / "params.yaml").read_text(), overlay), "applied")
    merge(params, overlay)
    drop(params, overlay)
    assert params == applied


def test_a_null_leaves_an_entry_out() -> None:
    tree = {"studies": {"a": None, "b": {}}, "comparisons": {"a": {}, "c": None}, "search": {"space": {"x": None}}}
    drop(tree, {"studies": {"a": None}, "comparisons": {"c": None}, "search": {"space": {"x": None}}})
    assert tree == {"studies": {"b": {}}, "comparisons": {"a": {}}, "search": {"space": {}}}


def check(project: Path) -> int:
    found = Faults()
    profiles = check_agreement(project, Configuration(project), COMMANDS, found)
    found.stop()
    return profiles


def test_the_committed_files_agree(project: Path) -> None:
    assert check(project) == len(known(project))


def test_a_project_that_searches_nothing_agrees_with_its_profiles(project: Path) -> None:
    """Also while another profile is in force, most of which search nothing."""
    params = project / "params.yaml"
    apply(project, "minilm")
    assert parse_yaml(params.read_text(), "params")["search"] is None
    assert check(project) == len(known(project))
    subprocess.run(["git", "commit", "-q", "-a", "-m", "no search"], cwd=project, check=True)
    before = params.read_text()
    with pytest.raises(
        InputError, match=r"^profiles/results/search_mrpc\.yaml: search: incomplete, and params\.yaml has search: null"
    ):
        apply(project, "search_mrpc")
    assert params.read_text() == before
    apply(project, "scratch")
    (project / "profiles/results/search_mrpc.yaml").write_text("search:\n  name: mrpc\ntraining:\n  epoch: 2\n")
    with pytest.raises(InputError, match=r"search_mrpc\.yaml: merged over params\.yaml: .*did you mean 'epochs'"):
        check(project)


@pytest.mark.parametrize(
    "name, old, new, expected",
    [
        ("dvc.yaml", "observers, training, plugins, s", "observers, trainin, plugins, s", "did you mean 'training'"),
        (
            "dvc.yaml",
            '[analysis, plugins, reproduction, "studies.${key}"]',
            "[analysis, plugins, reproduction]",
            "stages.analyse.params: DVC would miss changes of a study",
        ),
        ("dvc.yaml", "  analyse:", "  look:", "stages.analyse: missing"),
        ("MLproject", "isoscope report", "isoscop report", "expected 'isoscope <command>"),
        ("profiles/minilm.yaml", "conv2d_identity", "conv2d_identiti", "did you mean 'conv2d_identity'"),
        ("profiles/minilm.yaml", "    task: sst2", "    task: sst3", "studies.fusion.task: 'sst3' is not in tasks"),
    ],
)
def test_any_disagreement_is_named(project: Path, name: str, old: str, new: str, expected: str) -> None:
    path = project / name
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(InputError) as caught:
        check(project)
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_local_text_stands_where_its_changes_are_seen(project: Path) -> None:
    task = project / "variants/task/sentiment.yaml"
    columns = "columns: {sentence: text, label: class}, splits: {train: train, validation: null, test: null}"
    source = f"{columns}, held_out: 0.1, seed: 0, licence: unknown"
    task.write_text(f"data: {{source: {{kind: local, path: texts/a.csv, {source}}}}}\n")
    check(project)
    task.write_text(f"data: {{source: {{kind: local, path: elsewhere/a.csv, {source}}}}}\n")
    with pytest.raises(InputError, match=r"^variants/task/sentiment.yaml: data.source.path: .* is outside texts/"):
        check(project)


def test_a_study_without_seeds_needs_no_task(project: Path) -> None:
    absent = [
        f"studies.{study}.{one}" for study in Configuration(project).root.studies for one in ("task=absent", "seeds=[]")
    ]
    assert check_all(Configuration(project, [*absent, "comparisons={}", "search=null"])) == 2


@pytest.mark.parametrize("name", ["dynamics", "dynamics_data"])
def test_studies_of_a_profile_are_no_fault_of_other_profiles(project: Path, name: str) -> None:
    """A study of a task that another profile does not prepare: whether both fit is asked when it is applied."""
    apply(project, name)
    assert check(project) == len(known(project))
