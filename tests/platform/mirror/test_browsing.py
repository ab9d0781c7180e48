"""Which experiment holds a run, its name, group and columns, and how it differs from its study's settings."""

import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from isoscope.base.errors import InputError
from isoscope.platform.mirror import browsing
from isoscope.platform.mirror.browsing import NOTE, _committed, changed, written
from isoscope.platform.mirror.fields import known_experiments
from isoscope.platform.mirror.mlflow import Server
from isoscope.platform.mirror.replay import Mirror, mirror
from isoscope.platform.runs.lines import SEARCH, Run, RunRecord, plugin_tags
from isoscope.platform.runs.record import read
from isoscope.platform.stages.mirror import serve
from tracked_runs import DIGEST, RUN, shown, start, write_record

OTHERS: dict[str, Any] = {"arm": None, "seed": None}
EXTRACTED: dict[str, Any] = {
    "stage": "extract",
    "axes": {},
    "inputs": {"models/fusion/additive/seed-0": "a" * 32 + ".dir", "trained by": "7" * 64},
}
BEGUN: dict[str, Any] = {"tags": {SEARCH: "search-small"}}


def everywhere(server: Server, digest: str = DIGEST) -> list[tuple[str, str]]:
    """Experiment and name of every run of a digest."""
    found = server.find([item.name for item in server.experiments()], digest)
    return [(server.names[run.experiment], run.name) for run in found]


TRAINED = "isoscope train fusion additive --seed 0"
INSIDE = "isoscope states fusion additive --seed 0"
SEARCHED: dict[str, Any] = {"study": "search-small", "seed": None}


@pytest.mark.parametrize(
    "fields, experiment, name, command, place",
    [
        ({}, "fusion", "additive seed 0", TRAINED, f"run-{DIGEST}"),
        ({"stage": "extract"}, "fusion/inside", "extract additive seed 0", INSIDE, "study-fusion"),
        ({"stage": "measure"}, "fusion/inside", "measure additive seed 0", INSIDE, "study-fusion"),
        ({"stage": "analyse"} | OTHERS, "fusion/inside", "analyse fusion", "isoscope analyse fusion", "study-fusion"),
        (
            {"stage": "compare", "study": "mlm_mt", "task": None, **OTHERS},
            *("mlm_mt/inside", "compare mlm_mt", "isoscope compare mlm_mt", "comparison-mlm_mt"),
        ),
        ({"stage": "prepare", "study": None} | OTHERS, "prepare", "prepare order", "isoscope prepare order", "data"),
        (
            {"stage": "search", "arm": "search small"} | SEARCHED,
            *("search-small", "search small", "isoscope search run", "search"),
        ),
        ({"stage": "trial", "arm": "trial 3"} | SEARCHED, "search-small", "trial 3", "isoscope search run", "search"),
        (BEGUN, "search-small", "additive seed 0", "isoscope search run", f"run-{DIGEST}"),
    ],
)
def test_an_experiment_holds_comparable_runs_and_a_description_says_how_to_repeat_them(
    fields: dict[str, Any], experiment: str, name: str, command: str, place: str
) -> None:
    run = Run(0, DIGEST, **{**RUN, **fields})
    assert (browsing.experiment(RunRecord(run), run), run.title) == (experiment, name)
    text = browsing.description(RunRecord(run), run)
    assert ("Add `-S name=value`" in text) == (command == TRAINED)
    assert f"`{DIGEST}`" in text
    assert f"`{command}`" in text
    assert f"`reports/index.html#{place}`" in text


def test_what_reads_a_study_is_apart_and_names_what_it_read(project: Path, server: Server) -> None:
    write_record(project)
    write_record(project, digest="ee" * 32, **EXTRACTED)
    assert not [sent.error for sent in mirror(project) if sent.error]
    assert everywhere(server) == [("fusion", "additive seed 0")]
    assert everywhere(server, "ee" * 32) == [("fusion/inside", "extract additive seed 0")]
    [inside], [trained] = shown(server, "fusion/inside", "ee" * 32), shown(server, "fusion")
    assert inside["tags"]["reads"] == f"{'7' * 64} {'a' * 32}.dir"
    assert "reads" not in trained["tags"]
    assert known_experiments(project, None).keys() == {"fusion", "fusion/inside"}


def test_a_name_and_a_description_that_a_person_gave_stay(project: Path, server: Server) -> None:
    path = write_record(project)
    run_id = Mirror(server).send(read(path)).run_id
    server.client.set_tag(run_id, NOTE, "the run of slide 3")
    server.client.update_run(run_id, name="slide 3")
    assert Mirror(server).send(read(path)).new.total() == 0
    [run] = shown(server, "fusion")
    assert (run["name"], run["tags"][NOTE]) == ("slide 3", "the run of slide 3")


def test_a_run_moves_once_from_the_search_that_began_it_to_the_study_that_published_it(
    project: Path, server: Server
) -> None:
    with start(project, **BEGUN) as record:
        record.metric("train/loss", 1.0, step=1)
        record.end("FINISHED")
    Mirror(server).send(read(record.path))
    assert everywhere(server) == [("search-small", "additive seed 0")]
    with start(project, **BEGUN) as record:
        record.end("FINISHED", output="models/fusion/additive/seed-0", output_md5="f" * 32 + ".dir")
    for new in (1, 0):
        assert Mirror(server).send(read(record.path)).new["runs"] == new
        assert everywhere(server) == [("fusion", "additive seed 0")]
    [run] = shown(server, "fusion")
    assert run["metrics"].keys() == {"train/loss"}


def test_experiments_are_of_training_runs_and_grouped_by_arm_unless_a_person_chose_otherwise(
    project: Path, server: Server
) -> None:
    path = write_record(project)
    Mirror(server).send(read(path))
    experiment = server.client.get_experiment_by_name("fusion")
    assert experiment.tags[browsing.VIEW_TAG] == browsing.view([])
    server.client.set_experiment_tag(experiment.experiment_id, "mlflow.experimentKind", "genai_development")
    Mirror(server).send(read(path))
    assert server.client.get_experiment("1").tags["mlflow.experimentKind"] == "genai_development"


def test_no_group_mixes_settings_code_plugins_or_data() -> None:
    run, own = Run(0, "", **RUN), browsing.arm_and_setting
    alike = [
        run._replace(seed=1, digest="5e"),
        run._replace(inputs={**run.inputs, "models/half_depth/masked/seed-1": "1"}),  # the seed's own start
        run._replace(params={**run.params, "training.threads": 2}),
        run._replace(tags={"isoscope.search": "search-fusion"}),
    ]
    assert {own(one) for one in alike} == {own(run)}
    others = [
        run._replace(params={**run.params, "training.learning_rate": 1e-3}),
        run._replace(code="c1" * 32),
        run._replace(tags=plugin_tags({"gated.py": "a" * 64})),
        run._replace(tags=plugin_tags({"gated.py": "b" * 64})),
        run._replace(inputs={"data/processed/order": "1" * 32 + ".dir"}),
        run._replace(inputs={**run.inputs, "org/model": "1"}),
        run._replace(arm="fft"),
    ]
    assert len({own(one) for one in (run, *others)}) == 1 + len(others)
    assert own(run._replace(stage="extract")) is None


def test_a_port_in_use_is_refused() -> None:
    nowhere: Any = None
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(
            InputError, match=rf"^--port {port}: Address already in use; give another, such as {port + 1}$"
        ):
            serve(nowhere, port)


SETTINGS = """\
studies:
  fusion: {task: order, settings: [small], axes: {fusion: [additive]}, seeds: [0]}
training: {learning_rate: 1e-3, epochs: 8, threads: 1, betas: [0.9, 0.999], budget: null}
model: {fusion: {kind: fft}, encoder: {kind: scratch, layers: 4}}
objective: {kind: classification}
"""
OVERLAYS = {
    "task/order": "training: {epochs: 3}",
    "settings/small": "training: {learning_rate: 2e-5}\nmodel: {encoder: {layers: 1}}",
    "fusion/additive": "model: {fusion: {kind: additive}}",
}
ARM = {
    "training.learning_rate": 2e-5,
    "training.epochs": 3,
    "training.threads": 1,
    "training.betas": [0.9, 0.999],
    "training.budget": None,
    "model.fusion.kind": "additive",
    "model.encoder.kind": "scratch",
    "model.encoder.layers": 1,
}


@pytest.fixture
def study(project: Path) -> Path:
    """A project with the settings of a study, committed."""
    (project / "params.yaml").write_text(SETTINGS)
    for name, text in OVERLAYS.items():
        overlay = project / "variants" / f"{name}.yaml"
        overlay.parent.mkdir(parents=True, exist_ok=True)
        overlay.write_text(f"{text}\n")
    for words in (("init", "--quiet"), ("add", "params.yaml", "variants"), ("commit", "--quiet", "-m", "settings")):
        subprocess.run(("git", *words), cwd=project, check=True)
    return project


@pytest.mark.parametrize(
    "given, name",
    [
        ({}, ""),
        ({"training.learning_rate": 3e-4}, "learning_rate=0.0003"),
        ({"training.betas": [0.9, 0.98]}, "betas=[0.9, 0.98]"),
        ({"training.budget": 7}, "budget=7"),
        ({"model.fusion.kind": "fft"}, "fusion.kind=fft"),
        ({"training.threads": 8}, ""),  # defines no run
        ({"training.later": 8}, ""),  # the settings do not have it
        ({"training.epochs": 4, "model.encoder.layers": 2}, "epochs=4 layers=2"),
        (
            {"training.epochs": 4, "training.betas": [0, 0], "training.budget": 1, "model.encoder.kind": "run"}
            | {"model.encoder.layers": 2, "training.learning_rate": 1.0},
            "learning_rate=1.0 epochs=4 betas=[0, 0] budget=1 and 2 more",
        ),
    ],
)
def test_the_difference_is_named_as_short_as_it_is_clear(study: Path, given: dict[str, Any], name: str) -> None:
    run = Run(0, DIGEST, **{**RUN, "params": ARM | given})
    assert written(changed(study, run)) == name


@pytest.mark.parametrize("words, shown", [("zh", {}), ("char", {"objective.tokenize": "char"})])
def test_what_the_task_decides_is_no_difference(study: Path, words: str, shown: dict[str, str]) -> None:
    (study / "variants/fusion/additive.yaml").write_text("objective: {kind: translation, tokenize: null}\n")
    subprocess.run(("git", "commit", "--quiet", "-am", "translation"), cwd=study, check=True)
    (study / "data/processed/order").mkdir(parents=True)
    (study / "data/processed/order/manifest.json").write_text('{"languages": {"sentence2": "Chinese"}}')
    run = Run(0, DIGEST, **{**RUN, "params": ARM | {"objective.tokenize": words, "model.fusion.kind": "fft"}})
    assert changed(study, run) == shown


@pytest.mark.parametrize(
    "fields",
    [{"stage": "extract"}, {"study": None}, {"study": "other"}, {"axes": {"fusion": "gone"}}, {"axes": {"..": "x"}}],
)
def test_what_has_no_settings_has_no_difference(study: Path, fields: dict[str, Any]) -> None:
    assert changed(study, Run(0, DIGEST, **{**RUN, "params": ARM | {"training.epochs": 4}, **fields})) == {}


def test_a_params_file_that_dvc_has_rewritten_is_no_setting(study: Path) -> None:
    (study / "params.yaml").write_text(SETTINGS.replace("epochs: 8", "epochs: 4"))
    (study / "variants/task/order.yaml").write_text("training: {epochs: 4}\n")
    run = Run(0, DIGEST, **{**RUN, "params": ARM | {"training.epochs": 4}})
    assert changed(study, run) == {"training.epochs": 4}


def test_name_group_columns_and_order_follow_and_stay(study: Path, server: Server) -> None:
    faster = ARM | {"training.learning_rate": 3e-4}
    ends = {"aa" * 32: (ARM, "FINISHED"), "bb" * 32: (faster, "KILLED"), "cc" * 32: (faster, "FAILED")}
    for _ in range(2):
        for digest, (params, status) in ends.items():
            with start(study, digest=digest, params=params) as record:
                record.end(status)
            Mirror(server).send(read(record.path))
        # A later commit renames nothing.
        (study / "variants/settings/small.yaml").write_text("training: {learning_rate: 3e-4}\n")
        subprocess.run(("git", "commit", "--quiet", "-a", "-m", "faster", "--allow-empty"), cwd=study, check=True)
        _committed.cache_clear()
        runs = {digest: shown(server, "fusion", digest)[0] for digest in ends}
        names = [run["name"] for run in runs.values()]
        assert names == ["additive seed 0", *2 * ["additive seed 0 learning_rate=0.0003"]]
        tags = [runs[digest]["tags"] for digest in ends]
        assert [one[browsing.CHANGED] for one in tags] == ["nothing", *2 * ["learning_rate=0.0003"]]
        assert [one[browsing.ORDER] for one in tags] == ["1 finished", "3 killed", "3 failed"]
        groups = [one[browsing.ARM_AND_SETTING] for one in tags]
        assert groups[0].startswith("additive, setting ")
        assert groups[1].startswith("additive learning_rate=0.0003, setting ")
        assert groups[1] == groups[2]
        view = server.client.get_experiment(server.experiment("fusion")).tags[browsing.VIEW_TAG]
        assert browsing.columns(view) == ["params.`training.learning_rate`"]


@pytest.mark.parametrize("text", [None, "", "{", "[]", '{"selectedColumns": 3}', '{"selectedColumns": [3]}'])
def test_a_view_that_a_person_has_changed_has_no_columns_of_ours(text: str | None) -> None:
    assert browsing.columns(text) == []
