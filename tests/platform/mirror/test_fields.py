from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from isoscope.platform.mirror import fields as plan
from isoscope.platform.runs.lines import Run
from isoscope.platform.runs.provenance import Git
from isoscope.platform.runs.record import read
from tracked_runs import DIGEST, RUN, start, write_record

NAMES = st.text(st.sampled_from("aZ09_-./ :[]@%é\n\0中\ud800"), min_size=1, max_size=20) | st.text(min_size=1)


@given(NAMES)
@settings(max_examples=400, deadline=None)
def test_every_name_becomes_one_that_mlflow_takes(name: str) -> None:
    from mlflow.utils.validation import MAX_ENTITY_KEY_LENGTH, _validate_metric_name, _validate_tag_name

    safe = plan.safe_name(name)
    assert 0 < len(safe) <= MAX_ENTITY_KEY_LENGTH
    _validate_metric_name(safe)
    _validate_tag_name(safe)
    assert plan.safe_name(safe) == safe
    assert plan.safe_name("geometry/layer_07/avg_sim é") == "geometry/layer_07/avg_sim é", "what MLflow takes stays"


@given(st.lists(NAMES, unique=True, max_size=8))
@example([f"{'x' * 260}{digit}" for digit in range(3)])
@settings(max_examples=200, deadline=None)
def test_two_names_never_become_one(names: list[str]) -> None:
    assert len({plan.safe_name(name) for name in names}) == len(names)


def test_an_address_is_told_without_its_credentials_and_else_as_it_is() -> None:
    assert plan.address("https://ada:secret@host:5000/x") == "https://host:5000/x"
    socket = "postgresql://ada:secret@/mlflow?host=/var/run/postgresql"
    assert "ada" not in plan.address(socket)
    assert "secret" not in plan.address(socket)
    for same in (
        "sqlite:///a@b.db",
        "sqlite:////srv/x.db",
        "sqlite:///x.db",
        "http://127.0.0.1:5000",
        "file:///srv/mlruns",
    ):
        assert plan.address(same) == same
    assert plan.address("http://ada:secret@[::1") == "http://[scrubbed]@[::1", "malformed: to be refused with its name"


def test_an_id_that_was_noted_as_a_number_is_read_as_text(tmp_path: Path) -> None:
    plan.note_experiment(tmp_path, None, "fusion", "7")
    notes = tmp_path / plan.EXPERIMENTS
    notes.write_text(notes.read_text().replace('"7"', '7, "odd": [7], "null": null'))
    assert plan.known_experiments(tmp_path, None) == {"fusion": "7"}


def test_bounds_are_those_of_mlflow() -> None:
    from mlflow.utils import validation

    assert plan.NAME_LENGTH == validation.MAX_ENTITY_KEY_LENGTH
    assert plan.PARAM_LENGTH == validation.MAX_PARAM_VAL_LENGTH
    assert plan.TAG_LENGTH == validation.MAX_TAG_VAL_LENGTH
    assert plan.DIGEST_LENGTH == validation.MAX_DATASET_DIGEST_SIZE
    assert plan.PARAMS_PER_BATCH == validation.MAX_PARAMS_TAGS_PER_BATCH
    assert plan.METRICS_PER_BATCH == validation.MAX_METRICS_PER_BATCH
    assert 6 * plan.BATCH_CHARACTERS < validation.MAX_BATCH_LOG_REQUEST_SIZE  # \uXXXX in JSON


@given(st.lists(st.text(max_size=9000), max_size=30), st.integers(1, 10))
@settings(max_examples=50, deadline=None)
def test_chunks_hold_everything_in_order_and_no_more_than_a_request_may(items: list[str], count: int) -> None:
    chunks = list(plan.chunks(items, count))
    assert [item for chunk in chunks for item in chunk] == items
    assert all(0 < len(chunk) <= count for chunk in chunks)
    assert all(len(chunk) == 1 or sum(map(len, chunk)) <= plan.BATCH_CHARACTERS for chunk in chunks)


def test_git_tags_are_the_authors_and_the_diff_as_much_as_a_tag_holds(tmp_path: Path) -> None:
    git = Git("1" * 40, "ü" * 9000)
    path = write_record(tmp_path, git=git)
    with start(tmp_path, git=Git("2" * 40, "published again from other sources")):
        pass
    record = read(path)
    tags = plan.tags(record, record.run)
    assert tags["mlflow.source.git.commit"] == "1" * 40
    assert tags["mlflow.source.git.dirty"] == "true"
    assert len(tags["mlflow.source.git.diff"]) == plan.TAG_LENGTH
    assert tags["mlflow.source.git.diff"].endswith("… cut: 18000 bytes, whole in diff.patch")
    assert tags["isoscope.dep.data/processed/order"] == "0" * 32 + ".dir"
    assert tags["isoscope.env.device"] == "cpu"
    assert Path(plan.artifacts(record)["diff.patch"].path).read_text() == git.diff


def test_a_clean_commit_has_no_diff_and_no_commit_no_git_tags(tmp_path: Path) -> None:
    clean = read(write_record(tmp_path / "clean", git=Git("1" * 40)))
    none = read(write_record(tmp_path / "none", git=Git(None)))
    tags = plan.tags(clean, clean.run)
    assert tags["mlflow.source.git.dirty"] == "false"
    assert "mlflow.source.git.diff" not in tags
    assert not any(name.startswith("mlflow.source.git.") for name in plan.tags(none, none.run))


def test_a_models_metrics_are_the_runs_own_points(tmp_path: Path) -> None:
    with start(tmp_path) as record:
        record.metric("validation/loss", 0.5, step=10, epoch=1)
        record.metric("test/accuracy", 0.9, step=30, epoch=1)  # once, at the end, of the best epoch's weights
        figures = {"validation/loss": 0.5, "test/accuracy": 0.9, "elsewhere": 1.0}
        record.checkpoint("epoch-1", epoch=1, step=10, path="c", md5="m", metrics=figures)
        record.checkpoint("epoch-1", epoch=1, step=10, path="c", md5="m2", metrics=figures)
    kept = read(record.path)
    [model] = plan.models(kept, kept.run)
    assert model.points[:2] == kept.metrics
    assert [(point.name, point.step) for point in model.points[2:]] == [("elsewhere", 10)]
    assert model.params["md5"] == "m2"


def test_parameters_read_as_in_yaml_and_are_cut_to_what_mlflow_takes() -> None:
    found = plan.params(
        Run(0, DIGEST, **RUN | {"params": {"a": None, "b": True, "c": 2e-5, "d": [3], "e": "x" * 7000}})
    )
    assert [found[name] for name in "abcd"] == ["null", "true", "2e-05", "[3]"]
    assert len(found["e"]) == plan.PARAM_LENGTH
    assert found["e"].endswith("… cut: 7000 characters")
