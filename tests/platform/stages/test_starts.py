"""Runs that start from other runs: hybrids, their alignment, and what is trained on."""

import copy
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from pydantic import ValidationError
from safetensors.numpy import load_file

from isoscope.base import paths
from isoscope.base.errors import InputError
from isoscope.base.paths import Project
from isoscope.data.plain import read_pairs
from isoscope.models.translated import scored, translate
from isoscope.platform.cli import app
from isoscope.platform.config.across_studies import check_all
from isoscope.platform.config.load import Configuration
from isoscope.platform.executor.placement import Placement
from isoscope.platform.runs import identity
from isoscope.platform.runs.output_files import read_metrics
from isoscope.platform.stages.accept import accept_all
from isoscope.platform.stages.study_cells import Setup, train_starts, training_job
from isoscope.platform.stages.train import train
from isoscope.training.job import loop_of
from start_material import ROOT, Made, made_in, tree
from trained_projects import Trained
from training_runs import files

LAST = "checkpoints/epoch-1/model.safetensors"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    with made_in(tmp_path_factory.mktemp("starts")) as found:
        yield found


def scores(output: Path) -> dict[str, float]:
    return {one["name"]: one["value"] for one in read_metrics(output) if one["name"].startswith("test/")}


def aligned(output: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((output / "alignment.json").read_text("utf-8"))
    return found


def test_a_missing_start_is_named(made: Made) -> None:
    with pytest.raises(InputError, match=r"^models/half_depth/masked-additive/seed-[01]: not trained.*isoscope train"):
        train(made.job("aligned", "alignment-identity", 1), output=None)


def test_the_model_itself_has_its_own_translations(made: Made) -> None:
    """Through the chain dynamics → aligned → hybrid, byte for byte."""
    joined = made.trained("hybrid", "translation-itself-none")
    own = train(made.job("dynamics", "translation-additive"), output=None)
    tables = [pd.read_parquet(one / "translations.parquet") for one in (joined, own)]
    pd.testing.assert_frame_equal(*tables)
    assert scores(joined) == scores(own)
    start = aligned(made.trained("aligned", "alignment-itself"))["before"]
    assert start["error"] == 0.0
    assert start["r2"] == 1.0
    assert start["cka"] == pytest.approx(1.0)


def test_a_text_of_ones_own_is_translated_as_the_test_split_was(made: Made, tmp_path: Path) -> None:
    joined = made.trained("hybrid", "translation-itself-none")
    chosen, text = (
        next(joined.glob("checkpoints/*")),
        made.setup.project.folder / "data/processed/reordered/test.parquet",
    )
    pairs = read_pairs(text, column="sentence1", references="sentence2", sentences=None)
    length = made.job("hybrid", "translation-itself-none").job.parts.model.max_length
    rows = translate(chosen, pairs, beams=1, max_length=length, device="cpu", threads=1)
    kept = pd.read_parquet(joined / "translations.parquet")
    again, found = scored(rows, tokenize="13a")
    assert found == json.loads((joined / "bleu.json").read_text("utf-8"))
    pd.testing.assert_frame_equal(again[["translation", "bleu_share"]], kept[["translation", "bleu_share"]])
    asked = ["--text", str(text), "--column", "sentence1", "--out", str(tmp_path / "out"), "--sentences", "5"]
    app(["translate", str(chosen), *asked, "--max-length", str(length)], standalone_mode=False)
    some = pd.read_parquet(tmp_path / "out/translations.parquet")
    assert some["translation"].tolist() == rows["translation"].tolist()[:5]
    assert list(some) == ["source", "translation"]
    with pytest.raises(InputError, match=r"no column 'target' \(of the translations\); there are: sentence1"):
        read_pairs(text, column="sentence1", references="target", sentences=None)
    reader = next(made.trained("half_depth", "masked-additive").glob("checkpoints/*"))
    with pytest.raises(InputError, match="is no model of the objective 'translation'"):
        translate(reader, pairs, beams=1, max_length=None, device="cpu", threads=1)


def test_no_update_changes_nothing_and_some_do(made: Made) -> None:
    before = made.job("hybrid", "translation-ridge-none")
    chosen = made.trained("hybrid", "translation-ridge-none") / "checkpoints/epoch-0/model.safetensors"
    start = made.trained("aligned", "alignment-ridge") / "checkpoints/epoch-0/model.safetensors"
    weights, started = load_file(chosen), load_file(start)
    assert all(np.array_equal(weights[name], started[name]) for name in weights.keys() | started.keys())
    assert before.starts["model"].run.digest == made.job("aligned", "alignment-ridge").run.digest
    tuned = load_file(made.trained("hybrid", "translation-ridge-all") / LAST)
    moved = {name for name, one in tuned.items() if not np.array_equal(one, weights[name])}
    assert {name.split(".")[0] for name in moved} == {"encoder", "decoder"}
    assert "encoder.map.weight" in moved


def test_alignment_trains_the_encoder_and_not_the_decoder(made: Made) -> None:
    output = made.trained("aligned", "alignment-trained")
    assert {one.name for one in output.parent.iterdir()} == {"output", "lease.json"}, "nothing is left of its start"
    weights = load_file(output / LAST)
    own = load_file(train(made.job("dynamics", "translation-additive"), output=None) / LAST)
    read = load_file(train(made.job("half_depth", "masked-additive"), output=None) / LAST)
    name = "layer.0.attention.self.query.weight"
    assert np.array_equal(weights[f"decoder.bert.encoder.{name}"], own[f"decoder.bert.encoder.{name}"])
    assert not np.array_equal(weights[f"encoder.encoder.{name}"], read[f"bert.encoder.{name}"])
    found = aligned(output)
    assert found["after"]["error"] < found["before"]["error"]
    assert scores(output)["test/moved"] > 0


def test_before_is_measured_without_the_map_whatever_the_alignment_does(made: Made) -> None:
    """Four alignments of one encoder: nothing, a rotation, a linear map, training. Before them, all are the same."""
    found = {
        name: aligned(made.trained("aligned", f"alignment-{name}"))
        for name in ("identity", "procrustes", "ridge", "trained")
    }
    before = found["identity"]["before"]
    assert {name: one["before"] for name, one in found.items()} == dict.fromkeys(found, before)
    assert before == found["identity"]["after"], "the identity moves nothing"
    assert found["procrustes"]["after"]["cka"] == pytest.approx(before["cka"]), "no rotation changes it"
    errors = {name: one["after"]["error"] for name, one in found.items()}
    assert len({*errors.values()}) == 4
    assert errors["ridge"] < errors["procrustes"] < errors["identity"], "fitted maps come nearer in their order"
    other = aligned(made.trained("aligned", "alignment-random"))["before"]
    assert other["cka"] != pytest.approx(before["cka"]), "random weights are another encoder"


def test_next_is_the_next_seed_of_the_other_study(made: Made) -> None:
    for seed, expected in ((0, 1), (1, 0)):
        starts = made.job("aligned", "alignment-other_seed", seed).starts
        assert (starts["encoder"].job.seed, starts["decoder"].job.seed) == (expected, seed)
        assert starts["encoder"].run.digest != starts["decoder"].run.digest
        assert made.job("aligned", "alignment-ridge", seed).starts["encoder"].job.seed == expected
        assert made.job("aligned", "alignment-itself", seed).starts["encoder"].job.seed == seed


def test_a_change_of_the_start_changes_the_run_and_another_look_at_it_does_not(made: Made) -> None:
    def digests(change: Any) -> dict[str, str]:
        params = tree()
        change(params)
        setup = Setup(Configuration(ROOT, raw=params), made.setup.project, "train")
        return {study: training_job(setup, study, arm, 0).run.digest for study, arm in chosen.items()}

    chosen = {"half_depth": "masked-additive", "aligned": "alignment-ridge", "hybrid": "translation-ridge-all"}
    plain = digests(lambda params: None)
    changed = digests(lambda params: params["model"]["encoder"].update(intermediate_size=48))
    for study in chosen:
        assert changed[study] != plain[study]
    looked = digests(lambda params: params["studies"]["half_depth"].update(kind="isotropy"))
    assert looked == plain


def test_overrides_are_not_for_the_runs_to_start_from(made: Made) -> None:
    """But for the device and the like, which are no part of a digest."""
    given = ["training.learning_rate=1e-4", "training.threads=2"]
    setup = Setup(Configuration(ROOT, given, raw=tree()), made.setup.project, "train")
    job, plain = training_job(setup, "aligned", "alignment-ridge", 0), made.job("aligned", "alignment-ridge")
    assert job.run.digest != plain.run.digest
    assert {one.job.parts.training.threads for one in job.starts.values()} == {2}
    assert {name: one.run.digest for name, one in job.starts.items()} == {
        name: one.run.digest for name, one in plain.starts.items()
    }


@pytest.mark.parametrize("axes, start, message", [
    ({}, ("hybrid", "translation-identity-none"), r"^model\.encoder: study 'hybrid' starts from itself"),
    ({}, ("aligned", "nothing"), r"studies\.hybrid: .*'aligned' has no arm 'nothing'"),
    ({"fusion": ["fft"]}, ("aligned", "alignment-identity"), r"^model\.fusion: .*'fft'.*, but .* has .*'additive'"),
])  # fmt: skip
def test_what_cannot_start_is_refused(
    made: Made, axes: dict[str, list[str]], start: tuple[str, str], message: str
) -> None:
    params = tree()
    params["studies"]["hybrid"]["axes"] |= axes
    name = "variants/from/identity.yaml:model.encoder"
    given = [f"{name}.study={start[0]}", f"{name}.arm={start[1]}"]
    setup = Setup(Configuration(ROOT, given, raw=params), made.setup.project, "train")
    arm = next(arm for arm in setup.configuration.arms("hybrid"))
    made.trained("aligned", "alignment-identity")
    with pytest.raises(InputError, match=message):
        train(training_job(setup, "hybrid", arm, 0), output=None)


def test_a_killed_alignment_is_resumed_to_the_bit(made: Made, tmp_path: Path) -> None:
    """The anchor is the model at the start, also after a resumption."""
    from isoscope.training.display import Mute
    from isoscope.training.progress import InterruptedRunError

    torch.manual_seed(0)
    made.trained("aligned", "alignment-identity")
    job, whole = made.job("aligned", "alignment-trained"), made.trained("aligned", "alignment-trained")
    for stops in (2, None):
        calls = iter(range(100))
        stop = (lambda stops=stops, calls=calls: next(calls) == stops) if stops else lambda: False
        loop = loop_of(job.job, Mute(), Mute(), stop, folder=tmp_path)
        try:
            loop.fit()
            stopped = False
        except InterruptedRunError:
            stopped = True
        assert stopped == bool(stops)
    found, expected = (load_file(one / LAST) for one in (tmp_path / "work", whole))
    assert all(np.array_equal(found[name], expected[name]) for name in expected)


def test_they_are_compared(made: Made) -> None:
    """The comparison reads runs of both studies: nearness of the starts, and BLEU of what was trained from them."""
    params, few = tree(), ["identity", "ridge", "itself"]
    params["studies"]["aligned"]["axes"]["map"] = params["studies"]["hybrid"]["axes"]["from"] = few
    params["studies"]["aligned"]["seeds"] = params["studies"]["hybrid"]["seeds"] = [0]
    params["comparisons"] = {"translate": {"kind": "hybrids", "aligned": "aligned", "tuned": "hybrid"}}
    configuration, project = Configuration(ROOT, raw=params), made.setup.project
    check_all(configuration)
    setup = Setup(configuration, project, "train")
    arms = {study: [*configuration.arms(study)] for study in ("aligned", "hybrid")}
    for study, names in arms.items():
        for arm in names:
            train_starts(setup, [(study, arm, 0)], title="starts", workers=1, placement=Placement())
            train(training_job(setup, study, arm, 0), output=project.folder / paths.trained(study, arm, 0))
    found = Trained(configuration, project).analyse("translate", arms, configuration.comparison("translate"))
    folder = found / paths.TABLES
    near = pd.read_parquet(folder / "nearness.parquet").set_index(["start", "when", "measure"])["value"]
    assert near["itself", "after", "r2"] == 1.0
    assert near["identity", "after", "cka"] < near["ridge", "after", "cka"] < 1.0
    assert set(pd.read_parquet(folder / "translated.parquet")["start"]) == set(few)
    assert {one.stem for one in folder.parent.glob("figures/*.svg")} >= {"hybrid_scores", "hybrid_nearness"}


@pytest.mark.parametrize("study, change, message", [
    ("half_depth", {"seeds": [0]}, r"studies\.aligned: model\.encoder: no seed after 0; study 'half_depth' has seeds"),
    ("half_depth", {"seeds": [5]}, r"several seeds of 'aligned' would start from one run; study 'half_depth'"),
    ("half_depth", {"task": "sentiment"}, r"study 'half_depth' has task 'sentiment', but this study has 'reordered'"),
    ("half_depth", {"axes": {"objective": ["causal"], "fusion": ["additive"]}}, r"has no arm 'masked-additive'"),
])  # fmt: skip
def test_the_configuration_is_checked_with_its_starts(study: str, change: dict[str, Any], message: str) -> None:
    params = tree()
    params["tasks"].append("sentiment")
    check_all(Configuration(ROOT, raw=copy.deepcopy(params)))
    params["studies"][study] |= change
    with pytest.raises(InputError, match=message):
        check_all(Configuration(ROOT, raw=params))


def test_a_start_may_have_tables_of_a_known_variance() -> None:
    """A published checkpoint may not: its tables have another."""
    params, run = tree(), {"kind": "run", "study": "half_depth", "arm": "masked-fft_scaled", "seed": "same"}
    params["studies"]["half_depth"]["axes"]["fusion"] = ["additive", "fft_scaled"]
    model = Configuration(ROOT, raw=params).cell("half_depth", "masked-fft_scaled").cell.model
    kind, given = type(model), model.model_dump()
    assert kind.model_validate(given | {"encoder": run}).starts["model"].arm == "masked-fft_scaled"
    named = {"kind": "pretrained", "checkpoint": "bert-base-uncased", "revision": "main"}
    with pytest.raises(ValidationError, match=r"fusion\.scale 'variance' needs an encoder from scratch"):
        kind.model_validate(given | {"encoder": named})


def test_what_starts_from_accepted_runs_is_accepted(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a change of the code, digests change along the chain; each level is found once the level before is."""
    shutil.copytree(made.setup.project.folder / "data", tmp_path / "data")
    (tmp_path / paths.PARAMS).write_text("# read by no test\n")
    project = Project(tmp_path, tmp_path)
    before = Made(Setup(Configuration(ROOT, raw=tree()), project, "train"))
    cells = [
        ("aligned", "alignment-identity", 0),
        ("half_depth", "masked-additive", 1),
        ("dynamics", "translation-additive", 0),
    ]
    with monkeypatch.context() as patch:
        patch.setattr(identity, "code_version", lambda *_: "0" * 64)
        trained = {before.trained(*cell).parent.name for cell in reversed(cells)}
    jobs = lambda: [before.job(*cell) for cell in cells]  # noqa: E731
    assert not any(job.run.output.is_dir() for job in jobs())
    accepted = accept_all(jobs, project=project)
    assert {one.digest for one in accepted} == trained
    assert {job.run.folder.name for job in jobs()} == trained


def test_a_hybrid_of_another_folder_is_the_same_bytes(made: Made, tmp_path: Path) -> None:
    """The configurations of its parts have forgotten where they were read."""
    folder = tmp_path / "an entirely different place"
    folder.mkdir()
    with made_in(folder) as other:
        for each in (made, other):
            each.trained("hybrid", "translation-identity-all")
        for study, arm in (("aligned", "alignment-identity"), ("hybrid", "translation-identity-all")):
            found, expected = (files(each.job(study, arm).run.output) for each in (other, made))
            assert found == expected
            assert not [name for name, data in found.items() if str(folder).encode() in data]
        start = other.job("aligned", "alignment-identity").run.start
        assert not start.exists() or not [name for name, data in files(start).items() if str(folder).encode() in data]


@pytest.mark.parametrize("settings", [{"kind": "fusion"}, {"states": True}], ids=["kind", "states"])
def test_states_of_models_without_a_classifier_are_refused_before_any_training(settings: dict[str, Any]) -> None:
    params = tree()
    params["studies"]["half_depth"] |= settings
    said = "kind: fusion" if "kind" in settings else "states: true"
    with pytest.raises(InputError, match=rf"studies\.half_depth: {said} reads the states .* its objective is 'masked'"):
        check_all(Configuration(ROOT, raw=params))
