"""Which experiment holds a run, its name and description; runs that earlier versions put elsewhere."""

import socket
from pathlib import Path
from typing import Any

import pytest

from isoscope.base.errors import InputError
from isoscope.platform.mirror import browsing
from isoscope.platform.mirror.browsing import NOTE, has_arms, runs_page
from isoscope.platform.mirror.fields import known_experiments
from isoscope.platform.mirror.mlflow import Server, connect
from isoscope.platform.mirror.replay import Mirror, mirror
from isoscope.platform.runs.field_checks import SEARCH
from isoscope.platform.runs.lines import End, Run, RunRecord, plugin_tags
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


@pytest.fixture
def server(project: Path) -> Server:
    return connect(None, project)


def everywhere(server: Server, digest: str = DIGEST) -> list[tuple[str, str]]:
    """Experiment and name of every run of a digest."""
    found = server.find([item.name for item in server.experiments()], digest)
    return [(server.names[run.experiment], run.name) for run in found]


@pytest.mark.parametrize(
    "fields, experiment, name",
    [
        ({}, "fusion", "additive seed 0"),
        ({"stage": "extract"}, "fusion/inside", "extract additive seed 0"),
        ({"stage": "measure"}, "fusion/inside", "measure additive seed 0"),
        ({"stage": "analyse", **OTHERS}, "fusion/inside", "analyse fusion"),
        ({"stage": "compare", "study": "mlm_mt", "task": None, **OTHERS}, "mlm_mt/inside", "compare mlm_mt"),
        ({"stage": "prepare", "study": None, **OTHERS}, "prepare", "prepare order"),
        ({"stage": "search", "study": "search-small", "arm": "search small", "seed": None}, "search-small", None),
        ({"stage": "trial", "study": "search-small", "arm": "trial 3", "seed": None}, "search-small", "trial 3"),
        (BEGUN, "search-small", "additive seed 0"),
    ],
)
def test_an_experiment_holds_comparable_runs(fields: dict[str, Any], experiment: str, name: str | None) -> None:
    run = Run(0, DIGEST, **{**RUN, **fields})
    assert (browsing.experiment(RunRecord(run), run), run.title) == (experiment, name or fields["arm"])


def test_a_run_that_a_search_began_is_the_studys_once_it_is_published() -> None:
    run = Run(0, DIGEST, **{**RUN, **BEGUN})
    ended = {output: RunRecord(run, end=End(1, "FINISHED", output=output)) for output in (None, "models/fusion/a/0")}
    assert [browsing.experiment(record, run) for record in ended.values()] == ["search-small", "fusion"]


@pytest.mark.parametrize(
    "fields, command, place",
    [
        ({}, "isoscope train fusion additive --seed 0", f"run-{DIGEST}"),
        ({"stage": "measure"}, "isoscope states fusion additive --seed 0", "study-fusion"),
        ({"stage": "analyse", **OTHERS}, "isoscope analyse fusion", "study-fusion"),
        ({"stage": "compare", "study": "mlm_mt", **OTHERS}, "isoscope compare mlm_mt", "comparison-mlm_mt"),
        ({"stage": "trial", "study": "search-small", "arm": "trial 3", "seed": None}, "isoscope search run", "search"),
    ],
)
def test_a_description_names_digest_command_and_place_in_the_report(
    fields: dict[str, Any], command: str, place: str
) -> None:
    text = browsing.description(Run(0, DIGEST, **{**RUN, **fields}))
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
    assert run_id is not None
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
    assert experiment is not None
    assert experiment.tags[browsing.VIEW_TAG] == browsing.view([])
    server.client.set_experiment_tag(experiment.experiment_id, "mlflow.experimentKind", "genai_development")
    Mirror(server).send(read(path))
    assert server.client.get_experiment("1").tags["mlflow.experimentKind"] == "genai_development"


def test_only_experiments_of_studies_open_grouped_by_arm() -> None:
    grouped = {name: has_arms(name) for name in ("fusion", "fusion/inside", "search-fusion")}
    assert grouped == {"fusion": True, "fusion/inside": False, "search-fusion": False}
    assert "by-arm" in runs_page("", "1")
    assert "by-arm" not in runs_page("", "1", grouped=False)


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
