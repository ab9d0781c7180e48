"""Score checkpoints with a head on any file of texts: scores with intervals, and predictions by row."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from tqdm import tqdm
from transformers import AutoModelForSequenceClassification

from isoscope.base.atomic_files import MANIFEST, sha256
from isoscope.base.errors import InputError
from isoscope.base.metric import Metric
from isoscope.base.paths import processed
from isoscope.data import tokens
from isoscope.data.batches import evaluation_batches
from isoscope.data.checkpoints import stated_length
from isoscope.data.classes import forms
from isoscope.data.files import read_mapping
from isoscope.data.plain import Targets
from isoscope.geometry.moments import Floats
from isoscope.metrics import label_scores, matrix_scores, regression_scores
from isoscope.metrics.further import FurtherMetrics
from isoscope.models.build import check_device
from isoscope.models.encoder import checkpoint_config, longest, pad_with, positions
from isoscope.models.loading import in_one_line, pretrained
from isoscope.platform.runs.output_files import CONFIG, best_epoch, read_metrics
from isoscope.platform.runs.provenance import dvc_md5
from isoscope.platform.statistics.paired import paired_t, two_way_interval
from isoscope.states.choices import ScoreSettings
from isoscope.states.given_checkpoints import Checkpoint, content_digest, find, run_of
from isoscope.states.hidden_states import inputs_of

MODULES: dict[str, Any] = {one.TARGET: one for one in (matrix_scores, regression_scores, label_scores)}
"""Target → module of its metrics."""
TARGETS = {"single_label_classification": "label", "regression": "score", "multi_label_classification": "labels"}
"""What a head predicts, as transformers calls it → target."""


Bound = tuple[str, str, float]
"""The option that asks for it, a metric, and the number that a score must reach, or not exceed (--at-most)."""


class Logged(NamedTuple):
    """A run for MLflow: the metrics of the checkpoint in `folder`.

    `of`: study, arm and seed of the run that made it; empty for another checkpoint. `inputs`: role → name and digest of
    what it reads. `digest`: hashes the checkpoint again.
    """

    folder: Path
    of: Mapping[str, Any]
    inputs: Mapping[str, tuple[str, str]]
    digest: Callable[[], str]
    params: Mapping[str, Any]
    metrics: Mapping[str, float]


class Scores(NamedTuple):
    """A checkpoint's scores, metric → value, and → shares of the rows; its predictions; number of truncated texts.

    `names`: of the classes or labels whose numbers are in the predictions; none of a score.
    """

    checkpoint: Checkpoint
    values: Mapping[str, float]
    shares: Mapping[str, Floats]
    predictions: pd.DataFrame
    truncated: int
    names: list[str]


def evaluated(
    given: Sequence[str], read: Callable[[str], Targets], metrics: Sequence[str], bounds: Sequence[Bound], settings: Any
) -> tuple[Any, ...]:
    """Score checkpoints on the rows that `read` gives for what their heads predict: label, score or labels.

    `metrics`: names or paths of further modules of `evaluate`. Returns the fields of `asked.Made`. Raises `InputError`
    for heads that predict different things, for labels that a checkpoint does not have, and for unknown metrics.
    """
    check_device(settings.device, key="--device", cure="cpu")
    torch.set_num_threads(settings.threads)
    groups = _groups(given)
    every = [one for group in groups.values() for one in group]
    kinds = {_target(one.folder): one.given for one in every}
    if len(kinds) > 1:
        each = ", ".join(f"{name} predicts a {kind}" for kind, name in kinds.items())
        raise InputError(f"checkpoints: {each}; score them apart")
    (kind,) = kinds
    rows, declared = read(kind), {one.name: one for one in MODULES[kind].METRICS}
    if len(rows.true) < 2:
        raise InputError(f"--text: {len(rows.true)} rows; scores need two or more")
    further = FurtherMetrics(metrics, key="--metric", taken=declared, sets=kind == "labels")
    for one in every:
        _check_texts(one, rows)
    found = {one: _scores(one, rows, kind, further, settings) for one in every}
    first = found[every[0]].values
    declared = {name: declared.get(name, Metric(name)) for name in sorted(first, key=[*declared, *first].index)}
    scores = {
        name: {metric: _row([found[one] for one in group], metric, settings.confidence) for metric in declared}
        for name, group in groups.items()
    }
    missed = [*_missed(bounds, scores)]
    lines = [f"{len(rows.true)} rows"]
    for name, group in groups.items():
        cut = sum(found[one].truncated for one in group)
        seeds, texts = f" ({len(group)} seeds)" * (len(group) > 1), f"; {cut} texts are truncated" * (cut > 0)
        lines += [f"{name}{seeds}{texts}", *(_line(one, scores[name][metric]) for metric, one in declared.items())]
    told = {
        "rows": len(rows.true),
        "scores": scores,
        "missed": missed,
        "labels": {one.name: found[one].names for one in every},
    }
    predictions = [found[one].predictions.assign(checkpoint=one.name) for one in every]
    files = {f"metric {one}": (one, sha256(Path(one))) for one in metrics if Path(one).is_file()}
    params = {"metrics": list(metrics), **settings._asdict()}
    runs = tuple(_logged(found[one], {"text": (rows.name, rows.sha256), **files}, params) for one in every)
    facts = {"checkpoints": {one.given: one.digest for one in every}, "text": {rows.name: rows.sha256}, **params}
    tables = {"predictions": pd.concat(predictions, ignore_index=True)}
    return tables, facts, {"scores.json": told}, (told, "\n".join([*lines, *missed]), bool(missed)), runs


def _row(scores: Sequence[Scores], metric: str, confidence: float) -> dict[str, float | None]:
    """Return the mean of a metric, with its interval over rows; of several seeds, over seeds and rows.

    One seed: t interval of the rows' shares. Several: two-way, from three seeds on. A metric without shares has an
    interval over seeds only. Both ends are None where there is none.
    """
    values = [one.values[metric] for one in scores]
    shares = np.array([one.shares[metric] for one in scores if metric in one.shares])
    if len(shares) > 1:
        found = two_way_interval(shares, confidence=confidence)
    else:
        found = paired_t(shares[0].tolist() if len(shares) else values, confidence=confidence).interval
    low, high = found if found and found.low < found.high else (None, None)  # equal in each row: no spread to judge by
    return {"value": float(np.mean(values)), "low": low, "high": high}


def _line(metric: Metric, row: Mapping[str, Any]) -> str:
    ends = "" if row["low"] is None else f"  [{row['low']:.{metric.digits}f}, {row['high']:.{metric.digits}f}]"
    return f"  {metric.label:<44} {row['value']:.{metric.digits}f}{ends}"


def _missed(bounds: Sequence[Bound], scores: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> Iterator[str]:
    """Yield a sentence for each score that misses a bound; raise `InputError` for a bound of an unknown metric."""
    for flag, metric, bound in bounds:
        for name, rows in scores.items():
            if metric not in rows:
                raise InputError(f"{flag} {metric}={bound:g}: no such metric; expected {', '.join(rows)}")
            value = rows[metric]["value"]
            if not (value <= bound if flag == "--at-most" else value >= bound):
                yield f"missed: {flag} {metric}={bound:g}: {name} has {value:.4g}"


def _logged(scores: Scores, files: Mapping[str, tuple[str, str]], params: Mapping[str, Any]) -> Logged:
    one, run = scores.checkpoint, run_of(scores.checkpoint.folder)
    of = {} if run is None else {"study": run.study, "arm": run.arm, "seed": run.seed}
    by = {} if run is None else {"run": ("trained by", run.digest)}
    digest = partial(content_digest, one.folder)
    return Logged(one.folder, of, {"checkpoint": (one.given, one.digest), **by, **files}, digest, params, scores.values)


def _target(folder: Path) -> str:
    """Return what the head of a checkpoint predicts: label, score or labels. Raises `InputError` for another head."""
    config = checkpoint_config(folder)
    problem = config.problem_type or ("regression" if config.num_labels == 1 else "single_label_classification")
    one, needs = config.num_labels == 1, {"score": True, "label": False}  # sets of labels: any number of outputs
    if problem not in TARGETS or needs.get(TARGETS[problem], one) != one:
        raise InputError(f"checkpoint {folder}: config.json: no scores for {problem!r} of {config.num_labels} outputs")
    return TARGETS[problem]


def _check_texts(one: Checkpoint, rows: Targets) -> None:
    """Check that a run that was trained on pairs is given pairs, if its task is there as it was trained on."""
    if (run := run_of(one.folder)) is None or not (project := one.folder.parents[5:6]):
        return
    manifest, data = project[0] / processed(run.task) / MANIFEST, processed(run.task).as_posix()
    if not manifest.is_file() or run.inputs.get(data) != dvc_md5(manifest.parent):
        return
    if {*(columns := read_mapping(manifest)["columns"])} != {*rows.table.column_names}:
        asked = "name the second text with" if len(columns) > 1 else "give no"
        raise InputError(f"checkpoint {one.given}: was trained on {' and '.join(columns)}; {asked} --other-column")


def _groups(given: Sequence[str]) -> dict[str, list[Checkpoint]]:
    """Find checkpoints by the names that they were given by; the folder of an arm gives the checkpoint of each seed."""
    folders = {one: _selected(Path(one)) or [one] for one in given}
    found = iter(find([one for several in folders.values() for one in several]))
    return {name: [next(found) for _ in several] for name, several in folders.items()}


def _selected(folder: Path) -> list[str]:
    """Return the checkpoint of the chosen epoch of a run, or of every run of an arm; none of another folder."""
    seeds = {int(one.name[5:]): one for one in folder.glob("seed-*") if one.name[5:].isdigit()}
    if not seeds and not (folder / CONFIG).is_file():
        return []
    runs = [one for _, one in sorted(seeds.items())] or [folder]
    best = {run: best_epoch(read_metrics(run)) for run in runs}
    if lacking := [str(run) for run, epoch in best.items() if epoch is None]:
        raise InputError(f"{lacking[0]}: no finished training run; train it, or name a checkpoint of it")
    return [str(run / "checkpoints" / f"epoch-{epoch}") for run, epoch in best.items()]


def _scores(one: Checkpoint, rows: Targets, kind: str, further: FurtherMetrics, settings: ScoreSettings) -> Scores:
    model = pretrained(AutoModelForSequenceClassification, one.folder, checkpoint_config(one.folder), only_reads=True)
    logits, truncated = _logits(model.eval().to(settings.device), one, rows, settings)
    one.check_unchanged()
    names = [str(model.config.id2label[number]) for number in range(model.config.num_labels)]
    true = rows.true if kind == "score" else _numbers(one, rows.true, names)
    references, predictions = _predicted(kind, true, logits, getattr(model.config, "threshold", 0.5))
    module = MODULES[kind]
    table = pd.DataFrame({"row": np.arange(len(logits)), **module.columns(references, predictions, logits)})
    shares = {name: found.shares for name, found in module.by_item(table).items()}
    own = module.scores(references, predictions, *([len(names)] if kind == "label" else []))
    others = further(references, predictions)
    if undefined := [name for name, value in others.items() if not np.isfinite(value)]:
        raise InputError(f"--metric: {undefined[0]} is {others[undefined[0]]} for checkpoint {one.given}; leave it out")
    values = {name: float(share.mean()) for name, share in shares.items()} | own | others
    return Scores(one, values, shares, table, truncated, [] if kind == "score" else names)


def _logits(model: Any, one: Checkpoint, rows: Targets, settings: ScoreSettings) -> tuple[Floats, int]:
    """Return the outputs `[N, L]` of a model, and how many texts are truncated."""
    tokenizer, end = tokens.load(one.folder), positions(model)
    most = min(settings.max_length or stated_length(one.folder) or end, end)
    encoded = tokens.encode(tokenizer, rows.table, max_length=most)
    if (takes := longest(model.base_model, int(encoded.lengths.max()))) < encoded.lengths.max():
        encoded = tokens.encode(tokenizer, rows.table, max_length=takes)
    pad_with(model.config, tokenizer.pad_id)
    found = np.zeros((len(rows.true), model.config.num_labels))
    progress = tqdm(total=len(rows.true), desc=one.name, unit="text", disable=None)
    with progress as bar, torch.inference_mode(), in_one_line(one.folder):
        for batch in evaluation_batches(encoded.lengths, batch_size=settings.batch_size):
            found[batch] = model(**inputs_of(model, encoded, batch, tokenizer.pad_id)).logits.float().cpu()
            bar.update(len(batch))
    if not np.isfinite(found).all():
        raise InputError(f"checkpoint {one.given}: predicts NaN or infinity; are its weights damaged?")
    return found, encoded.truncated


def _numbers(one: Checkpoint, true: Sequence[Any], names: Sequence[str]) -> list[Any]:
    """Return the number of each row's class, or the numbers of its labels, by the model's own names.

    A label may have spaces around it, and a whole number a point: 1.0 for 1. A model whose labels have no names
    (LABEL_0 …) is given their numbers. Raises `InputError` for other labels.
    """
    known = {name: number for number, name in enumerate(names)}
    if names == [f"LABEL_{number}" for number in range(len(names))]:
        known |= {str(number): number for number in range(len(names))}
    given = [labels if isinstance(labels, list) else [labels] for labels in true]
    read = {one: next((form for form in forms(one) if form in known), one) for labels in given for one in labels}
    several = [[read[one] for one in labels] for labels in given]
    if other := sorted({label for labels in several for label in labels} - known.keys()):
        raise InputError(
            f"--labels: {', '.join(map(repr, other[:10]))} are no labels of checkpoint {one.given}, which has "
            f"{', '.join(map(repr, names[:10]))}; write them as the model names them (config.json: id2label)"
        )
    numbers = [[known[label] for label in labels] for labels in several]
    return [each if isinstance(labels, list) else each[0] for each, labels in zip(numbers, true, strict=True)]


def _predicted(kind: str, true: Sequence[Any], logits: Floats, threshold: float) -> tuple[Any, Any]:
    """Return references and predictions, as the metrics module of a target takes them."""
    if kind == "label":
        return np.array(true, np.int64), logits.argmax(1)
    if kind == "score":
        return np.array(true, np.float64), logits[:, 0]
    of_row = np.zeros(logits.shape, bool)
    for row, numbers in enumerate(true):
        of_row[row, numbers] = True
    return of_row, label_scores.probabilities(logits) > threshold
