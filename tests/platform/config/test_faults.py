"""`isoscope check` lists every error, not only the first."""

import json
from pathlib import Path

import pytest
import typer

from isoscope.base.errors import InputError
from isoscope.platform.cli import app
from isoscope.platform.config.across_studies import check_all
from isoscope.platform.config.load import Configuration
from isoscope.platform.config.tree import dump_yaml, parse_yaml, read_yaml

FAULTS = {
    "params.yaml: penaltie: unknown section; did you mean 'penalty'?": ("params.yaml", "\npenalty:", "\npenaltie:"),
    "params.yaml: report.titel: unknown key; did you mean 'title'?": ("params.yaml", "  title:", "  titel:"),
    "params.yaml: training.epoch: unknown key; did you mean 'epochs'?": (
        "params.yaml",
        "  epochs: 8\n",
        "  epoch: 8\n",
    ),
    "params.yaml: studies.isotropy: seeds [0, 0] contain a duplicate": (
        "params.yaml",
        "    - all\n    seeds:\n    - 0\n    - 1\n",
        "    - all\n    seeds:\n    - 0\n    - 0\n",
    ),
    "params.yaml: training.batch_size: expected greater than or equal to 1, got -3": (
        *("params.yaml", "batch_size: 32 ", "batch_size: -3 "),
    ),
    "params.yaml: analysis.power: expected less than or equal to 0.9999, got 8": (
        "params.yaml",
        "power: 0.8",
        "power: 8",
    ),
    "variants/task/sentiment.yaml: data.source.size: expected greater than or equal to 100, got 72": (
        *("variants/task/sentiment.yaml", "size: 7200", "size: 72"),
    ),
    "variants/task/cola.yaml: data.source.held_uot: unknown key; did you mean 'held_out'?": (
        *("variants/task/cola.yaml", "held_out: 0.1", "held_uot: 0.1"),
    ),
    "dvc.yaml: stages.analyse.cmd: no study 'isotrpy'; did you mean 'isotropy'?": (
        *("dvc.yaml", "cmd: isoscope analyse ${key}", "cmd: isoscope analyse isotrpy"),
    ),
    "variants/fusion/fft.yaml: model.fusion.token_type: expected 'add' or 'ignore', got 'adds'; did you mean 'add'?": (
        *("variants/fusion/fft.yaml", "token_type: add", "token_type: adds"),
    ),
    "variants/fusion/fft_unit.yaml: modell: not a section an overlay may set; did you mean 'model'?": (
        *("variants/fusion/fft_unit.yaml", "model:", "modell:"),
    ),
    "variants/weight/w10.yaml: line 3: not YAML: ": (*("variants/weight/w10.yaml", "penalty:", "penalty: [1\n#"),),
    "dvc.yaml: stages.train.cmd: no command 'trian'; did you mean 'train'?": (
        *("dvc.yaml", "isoscope train ${key}", "isoscope trian ${key}"),
    ),
    "dvc.yaml: stages.states.foreach: expected '${studies}'": (
        *("dvc.yaml", "states:\n    foreach: ${studies}", "states:\n    foreach: ${tasks}"),
    ),
    "params.yaml: studies.dynamics.kind: no kind 'dynamic'; did you mean 'dynamics'?": (
        *("params.yaml", "kind: dynamics", "kind: dynamic"),
    ),
    "dvc.yaml: stages.report.cmd: no closing quotation": (
        "dvc.yaml",
        "cmd: isoscope report\n",
        'cmd: isoscope "report\n',
    ),
    "MLproject: entry_points.report.command: no command 'raport'": ("MLproject", "isoscope report", "isoscope raport"),
    "profiles/minilm.yaml: merged over params.yaml: "
    "params.yaml: training.epochs: expected a valid integer, got 'two'": (
        *("profiles/minilm.yaml", "epochs: 2", "epochs: two"),
    ),
}
"""Line → the file, and what in it is replaced by what."""


def spoil(project: Path, file: str, old: str, new: str) -> None:
    text = (project / file).read_text("utf-8")
    assert old in text, f"{file}: {old!r}"
    (project / file).write_text(text.replace(old, new, 1), "utf-8")


def checked(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, list[str], str]:
    """Exit code, lines on stderr, stdout of `isoscope check`."""
    try:
        code = app(["check", *words], standalone_mode=False) or 0
    except typer.Exit as ended:
        code = ended.exit_code
    out, err = capsys.readouterr()
    return code, err.splitlines(), out


def test_every_fault_has_its_line_and_none_has_two(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert checked(capsys)[:2] == (0, [])
    for file, old, new in FAULTS.values():
        spoil(project, file, old, new)
    code, lines, out = checked(capsys, "--json")
    assert code == 2
    for fault in FAULTS:
        assert len([line for line in lines if line.startswith(f"isoscope: {fault}")]) == 1, f"{fault}\n" + "\n".join(
            lines
        )
    assert len(lines) == len(FAULTS), "\n".join(lines)
    assert [f"isoscope: {line}" for line in json.loads(out)["faults"]] == lines


def test_what_cannot_be_read_hides_no_other_file(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spoil(project, "params.yaml", "plugins: [", "plugins: [[")
    spoil(project, "dvc.yaml", "isoscope train ${key}", "isoscope trian ${key}")
    spoil(project, "variants/fusion/fft.yaml", "model:", "modell:")
    code, lines, _ = checked(capsys)
    assert code == 2
    files = [line.removeprefix("isoscope: ").partition(":")[0] for line in lines]
    assert files == ["params.yaml", "dvc.yaml", "variants/fusion/fft.yaml"]


@pytest.mark.parametrize("text", ["stages: []\n", "stages:\n  report: 3\n", "stages:\n  report: {deps: []}\n", "- 1\n"])
def test_a_dvc_yaml_of_another_form_is_named(project: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    (project / "dvc.yaml").write_text(text, "utf-8")
    code, lines, _ = checked(capsys)
    assert code == 2
    assert lines[0].startswith("isoscope: dvc.yaml: ")


@pytest.mark.parametrize("value", ["5", "[first]", "{5: 6}", "null"])
@pytest.mark.parametrize(
    "file, place",
    [
        *(("params.yaml", place) for place in ("search", "search.study", "comparisons", "studies", "studies.x.looks")),
        *(("profiles/minilm.yaml", place) for place in ("search", "comparisons", "studies")),
        ("profiles/results/search_mrpc.yaml", "search.space"),
        *(("dvc.yaml", place) for place in ("stages.train.do", "stages.train.do.params", "stages.report.params")),
    ],
)
def test_a_value_of_a_wrong_type_is_a_fault_beside_the_others(
    project: Path, capsys: pytest.CaptureFixture[str], file: str, place: str, value: str
) -> None:
    tree = read_yaml(project, Path(file))
    *parents, last = place.split(".")
    node = tree
    for key in parents:
        node = node.setdefault(key, {})
    node[last] = parse_yaml(value, "value")
    (project / file).write_text(dump_yaml(tree), "utf-8")
    spoil(project, "variants/fusion/fft.yaml", "model:", "modell:")
    code, lines, _ = checked(capsys)
    assert code == 2
    assert any(line.startswith("isoscope: variants/fusion/fft.yaml: modell: ") for line in lines)


def test_overrides_are_checked_together(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, lines, _ = checked(capsys, "-S", "training.epoch=2", "-S", "modle.x=1", "-S", "report.titel=x", "-S", "a")
    assert code == 2
    assert [line.removeprefix("isoscope: -S").partition("; did")[0] for line in lines] == [
        " a: expected name=value, such as training.epochs=2",
        ": report.titel: unknown key",
        " modle.x: unknown section 'modle'",
        ": training.epoch: unknown key",
    ]


@pytest.mark.parametrize("section", ["extraction", "measures", "report", "analysis", "training"])
def test_a_section_with_a_fault_does_not_hide_it(
    section: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, lines, _ = checked(capsys, "-S", f"{section}.x=1")
    assert code == 2
    assert [line.partition("; known")[0] for line in lines] == [f"isoscope: -S: {section}.x: unknown key"]


def test_another_command_says_the_first_and_how_many_more(project: Path) -> None:
    spoil(project, *FAULTS["params.yaml: report.titel: unknown key; did you mean 'title'?"])
    spoil(project, *FAULTS["params.yaml: analysis.power: expected less than or equal to 0.9999, got 8"])
    with pytest.raises(InputError) as caught:
        Configuration(project)
    assert len(caught.value.lines) == 2
    assert str(caught.value).endswith(" (and 1 more; isoscope check lists them)")


@pytest.mark.parametrize(
    "setting, line",
    [
        (
            "studies.fusion.axes={fusion: [fft], task: [cola, mrpc]}",
            "variants/task/cola.yaml: a task cannot be an axis",
        ),
        ("search.space={task: {choices: [cola, mrpc]}}", "variants/task/cola.yaml: a task cannot be an axis"),
        (
            "search.space={data.tokenizer.vocab_size: {choices: [100, 200]}}",
            "search.space: data.tokenizer.vocab_size: trials share the prepared data",
        ),
    ],
)
def test_neither_an_axis_nor_a_search_changes_the_data(project: Path, setting: str, line: str) -> None:
    with pytest.raises(InputError, match=line):
        check_all(Configuration(project, [setting]))


@pytest.mark.parametrize(
    "settings, line",
    [
        (
            ["measures.names=[isoscor]"],
            r"^params\.yaml: measures\.names: no measure 'isoscor'.*; did you mean 'isoscore'",
        ),
        (["training.metrics=[plugins/gone.py]"], r"^training\.metrics: plugins/gone\.py: no such file; put it there"),
        (["training.metrics=[plugins/own]"], r"a folder or file of this name would stand for the metric on the hub"),
        (["training.metrics=[./f1.py]"], r"training: metrics \['\./f1\.py'\]: outside plugins/"),
        (["training.metrics=[plugins/../../f1.py]"], r"training\.metrics\.0: .*outside the project"),
        (["training.metrics=[/srv/f1]"], r"training\.metrics\.0: .*outside the project"),
        (["training.metrics=[a/b/f1]"], r"training: metrics \['a/b/f1'\]: neither a name on the hub"),
        (["measures.names=[sts]"], r"^params\.yaml: measures\.names: sts needs scored pairs .*; set extraction\.pairs"),
    ],
)
def test_measures_and_metrics_are_there_before_any_work(project: Path, settings: list[str], line: str) -> None:
    (project / "plugins/own").mkdir(parents=True)
    (project / "plugins/own/own.py").write_text("raise SystemExit\n")  # `evaluate` would run it
    with pytest.raises(InputError, match=line):
        check_all(Configuration(project, settings))
    pairs = "extraction.pairs={file: stsb, split: test, pairs: null}"
    check_all(Configuration(project, ["measures.names=[sts, isoscore]", pairs]))


@pytest.mark.parametrize("section", ["studies", "comparisons"])
def test_a_name_below_which_dvc_finds_parameters_has_no_dot(project: Path, section: str) -> None:
    params = parse_yaml((project / "params.yaml").read_text("utf-8"), "params.yaml")
    name, entry = next(iter(params[section].items()))
    params[section][f"{name}.one"] = entry
    wrong = rf"^params\.yaml: {section}\.{name}\.one: expected a name of letters, digits and '_', got '{name}\.one'"
    with pytest.raises(InputError, match=wrong):
        check_all(Configuration(project, raw=params))


def test_a_place_that_is_the_project_itself_is_outside_its_folders(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "variants/task/local.yaml").write_text(
        "data: {source: {kind: local, path: ., columns: {sentence: a, label: b}, held_out: 0.1, seed: 0, licence: own,"
        " splits: {train: a.csv, validation: null, test: null}}}\n"
    )
    _, lines, _ = checked(capsys)
    assert any("data.source.path: '.' is outside texts/" in line for line in lines), lines


@pytest.mark.parametrize("name", ["settings/quick", "fusion/fft"])
def test_an_arm_cannot_change_the_data_of_its_task(project: Path, name: str) -> None:
    """All arms train on the task's prepared data: an arm's own `data` would be silently ignored."""
    path = project / f"variants/{name}.yaml"
    path.write_text(path.read_text("utf-8") + "data: {tokenizer: {vocab_size: 100}}\n", "utf-8")
    with pytest.raises(InputError, match=rf"^variants/{name}.yaml: data: all arms of a task share its data"):
        check_all(Configuration(project))


def test_the_fault_of_a_replaced_node_names_what_replaced_it(project: Path) -> None:
    """The overlay is right; `-S` leaves its other keys out."""
    settings = ["studies.fusion.settings=[allocated]", "training.allocation={dense: -1}"]
    with pytest.raises(InputError) as caught:
        Configuration(project, settings).cell("fusion", "additive")
    assert {line.partition(":")[0] for line in caught.value.lines} == {"-S"}


def test_what_is_expected_is_said_without_names_of_python(project: Path) -> None:
    for setting, expected in (
        (
            "training.freeze={after: 4, until: null, groups: []}",
            "training.freeze.groups: expected at least 1 item, got []",
        ),
        ("training.freeze=3", "training.freeze: expected a mapping"),
        ("training.freeze={after: 4, until: 4, groups: [enc]}", "training.freeze: until 4 is not after update 4"),
        ("studies.fusion.seeds=3", "studies.fusion.seeds: expected a list, got 3"),
    ):
        with pytest.raises(InputError) as caught:
            Configuration(project, [setting]).cell("fusion", "additive")
        assert expected in str(caught.value)


def test_transforms_are_compared_with_none() -> None:
    with pytest.raises(InputError, match=r"measures: transforms: \['whitened'\] are compared with none; add it"):
        check_all(Configuration(Path(__file__).parents[3], ["measures.transforms=[whitened]"]))
