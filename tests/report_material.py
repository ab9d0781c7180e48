"""Input of a report: a study, its task and its records, made by the production code."""

from collections import ChainMap
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from matplotlib.figure import Figure

from finished_runs import of_runs, tables_of, write_run
from isoscope.data import manifest
from isoscope.data.corpus import Corpus
from isoscope.platform.figures.origin import origin
from isoscope.platform.figures.pictures import Picture, pictures
from isoscope.platform.figures.style import to_svg
from isoscope.platform.report import build, read_records
from isoscope.platform.report.page import Page
from isoscope.platform.results.study_tables import StoredTables, Tables
from isoscope.platform.runs.lines import RunRecord
from isoscope.platform.runs.provenance import Git
from isoscope.platform.runs.record import Record
from isoscope.studies.arms.scores_on_test import baselines_on_test
from isoscope.studies.arms.views import VIEWS

LABELS = ("negative", "positive")
COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Material(NamedTuple):
    """The input of a report."""

    studies: list[Tables]
    manifests: Mapping[str, Mapping[str, Any]]
    records: dict[str, RunRecord]
    folders: dict[str, Path]
    """Where each study's figures are."""

    def explored(self, folder: Path) -> str:
        """The report of it, as a study of fusions whose tables and figures are in `folder`."""
        (one,) = self.studies
        whole = one._replace(by_name=ChainMap(dict(one.by_name), StoredTables(folder / "tables")))  # type: ignore[arg-type]
        return self.page(studies=[whole], folders={one.study: folder}, kinds={one.study: "fusion"})

    def page(self, **changed: Any) -> str:
        """The report of it, as HTML."""
        return self.built(**changed).html

    def built(self, **changed: Any) -> Page:
        """The report of it."""
        settings = {"title": "A study of order", "tracking_uri": None, "experiments": {}, **self._asdict()}
        return build(**{**settings, **changed})


def make_manifest(folder: Path, labels: tuple[str, ...] = LABELS, source: str = "made") -> dict[str, Any]:
    """The manifest of a small task."""
    rng = np.random.default_rng(0)
    splits = {}
    for split, rows in {"train": 400, "validation": 100, "test": 120}.items():
        label = np.arange(rows) % len(labels)
        words = [f"{'abcdef'[y]} {' '.join(map(str, rng.integers(50, size=rng.integers(3, 12))))}" for y in label]
        splits[split] = pa.table({"sentence": words, "label": label})
    facts = {"bayes_ceiling": 1.0, "difficulty": 3, "needs": "word order"}
    return manifest.write(Corpus(splits, labels, source, "CC0-1.0", "v1", facts), folder)


def make(
    root: Path,
    *,
    arms: Mapping[str, float],
    seeds: int = 3,
    study: str = "fusion",
    labels: tuple[str, ...] = LABELS,
    plugins: dict[str, str] | None = None,
    source: str = "generated: negation, although, than",
    epochs: int = 8,
) -> Material:
    """A study with arms of a given accuracy, with a record for each run but the last."""
    described = make_manifest(root / "processed", labels, source)
    folders = [
        write_run(
            root / "models",
            *(arm, seed),
            study=study,
            accuracy=accuracy,
            labels=labels,
            plugins=plugins,
            epochs=epochs - (seed == 1),
        )
        for arm, accuracy in arms.items()
        for seed in range(seeds)
    ]
    made = tables_of(study, of_runs(folders), baselines_on_test(described), margin=0.02)
    for index, run in enumerate(made.runs[:-1]):
        write_record(root / "records" / f"{run.digest}.jsonl", run.digest, dirty=index == 1)
    reports = root / "reports" / study
    (reports / "figures").mkdir(parents=True)
    for picture in pictures(VIEWS, made.by_name):
        write_figure(reports / "figures", picture, picture.figure())
    return Material([made], {"order": described}, read_records(root / "records", [made]), {study: reports})


def write_figure(folder: Path, picture: Picture, figure: Figure) -> None:
    """Write the figure of a picture, with its origin, as `isoscope analyse` does; of a table, nothing."""
    if not picture.lines:
        source = origin(picture.name, picture.rows, ()).text
        (folder / f"{picture.name}.svg").write_text(to_svg(figure, {"Source": source}), "utf-8")


def write_record(path: Path, digest: str, *, dirty: bool) -> None:
    """The record of a run that was finished at once."""
    with Record(path) as record:
        record.run(digest=digest, stage="train", study="fusion", arm="additive", seed=0)
        git = Git(COMMIT, "+changed\n" if dirty else "")
        record.attempt(git=git, environment={"device": "cpu", "torch": "2.13.0"})
        record.metric("train/loss", 0.5, step=1, epoch=1)
        record.end("FINISHED")
