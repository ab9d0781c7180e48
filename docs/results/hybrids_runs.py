"""Store the runs of hybrids.md: `python docs/results/hybrids_runs.py`, at the root of the project that trained them.

Needs `isoscope profile dynamics_hybrid` and `isoscope train` of its studies. What is not trained yet is left out.
Writes docs/results/hybrids/ of the checkout `--to` (default: this project):

- `runs.csv`: study, arm, seed, digest, commit, start, metric, value: the metrics of the test split. `start`: the run of
  another study that it was trained on from.
- `nearness.parquet`: study, arm, seed, when, measure, value, n: how near an encoder is to the decoder's own.
- `shares.parquet`: a row per test sentence, a column `<study>/<arm>/<seed>` with its share of BLEU.

`--text NAME=FILE` (columns src and tgt; may be repeated) instead translates other texts with the chosen checkpoints of
the study `hybrid`, and adds to `texts.csv`: text, arm, seed, digest, sentences, bleu, chrf.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from collect import commit_of, told

from isoscope.base import paths
from isoscope.base.errors import InputError
from isoscope.data.corpus import PAIR
from isoscope.data.plain import read_pairs
from isoscope.metrics.translation_scores import bleu_shares, translation_scores
from isoscope.platform.config.load import Configuration
from isoscope.platform.outputs import CONFIG, TRANSLATIONS, Output, read_output
from isoscope.platform.runs.restored import read_metrics
from isoscope.platform.stages.translate import translate
from isoscope.studies.hybrids.tables import FILES

STUDIES = (
    *("dynamics", "aligned", "hybrid", "hybrid_frozen", "aligned_few", "hybrid_few", "aligned_layers", "hybrid_layers"),
    *("rotated", "rotated_hybrid"),
)
OTHER = "hybrid"
"""Study whose models translate other texts."""
KEY = ["text", "arm", "seed"]


def outputs(studies: Sequence[str]) -> Iterator[Output]:
    """Yield the finished runs of these studies."""
    project = paths.find_project().folder
    configuration = Configuration(project)
    for study in studies:
        for arm in configuration.arms(study):
            for seed in configuration.study(study).seeds:
                folder = project / paths.trained(study, arm, seed)
                if (folder / CONFIG).is_file():
                    yield read_output(folder)


def metrics(output: Output) -> Iterator[dict[str, Any]]:
    """Yield a row per metric of the test split."""
    run = output.run
    start = output.params["model"]["encoder"]
    key = {"study": run.study, "arm": run.arm, "seed": run.seed, "digest": run.digest[:12]}
    key |= {"commit": commit_of(run.digest)[:7], "start": start.get("arm", "")}
    for point in read_metrics(output.folder):
        if point["name"].startswith("test/"):
            yield {**key, "metric": point["name"].removeprefix("test/"), "value": point["value"]}


def nearness(output: Output) -> Iterator[dict[str, Any]]:
    """Yield a row per measure of nearness, before and after the alignment."""
    run = output.run
    for when, found in json.loads((output.folder / FILES[0]).read_text("utf-8")).items():
        for measure, value in found.items():
            if measure != "n":
                key = {"study": run.study, "arm": run.arm, "seed": run.seed, "when": when}
                yield {**key, "measure": measure, "value": float(value), "n": int(found["n"])}


def shares(output: Output, references: list[str]) -> pd.Series:
    """Return each test sentence's share of BLEU."""
    run, table = output.run, pd.read_parquet(output.folder / TRANSLATIONS).sort_values("row")
    found = bleu_shares(table["translation"].tolist(), references, tokenize="13a")
    return pd.Series(found.astype(np.float32), name=f"{run.study}/{run.arm}/{run.seed}")


def of_text(name: str, file: Path, sentences: int | None) -> Iterator[dict[str, Any]]:
    """Yield a row of scores of each hybrid that was trained on, on another text."""
    pairs = read_pairs(file, column="src", references="tgt", sentences=sentences)
    if pairs.references is None:
        raise InputError(f"{file}: no references")
    for output in outputs([OTHER]):
        (folder,) = (output.folder / "checkpoints").iterdir()
        rows = translate(folder, pairs, beams=1, max_length=None, device="cpu", threads=1)
        found = translation_scores(rows["translation"].tolist(), pairs.sources, pairs.references, tokenize="13a")
        key = {"text": name, "arm": output.run.arm, "seed": output.run.seed, "digest": output.run.digest[:12]}
        yield {**key, "sentences": len(rows), "bleu": found.bleu, "chrf": found.chrf}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", type=Path, default=Path(), help="checkout to write to (default: this project)")
    parser.add_argument("--text", action="append", default=[], metavar="NAME=FILE", help="another text to translate")
    parser.add_argument("--sentences", type=int, help="only the first sentences of these texts")
    arguments = parser.parse_args()
    target = arguments.to / "docs/results/hybrids"
    target.mkdir(parents=True, exist_ok=True)
    if arguments.text:
        rows = [row for one in arguments.text for row in of_text(*_named(one), arguments.sentences)]
        table, file = pd.DataFrame(rows), target / "texts.csv"
        if file.exists():
            table = pd.concat([pd.read_csv(file, dtype={"digest": str}), table])
        table = table.drop_duplicates(KEY, keep="last").sort_values(KEY, kind="stable")
        table.to_csv(file, index=False, lineterminator="\n")
        return
    found = [*outputs(STUDIES)]
    if not found:
        raise InputError(f"no finished runs of {', '.join(STUDIES)} here; run: isoscope train hybrid")
    of_runs = pd.DataFrame([row for one in found for row in metrics(one)])
    of_runs.to_csv(target / "runs.csv", index=False, lineterminator="\n")
    near = pd.DataFrame([row for one in found if (one.folder / FILES[0]).is_file() for row in nearness(one)])
    near.to_parquet(target / "nearness.parquet", compression="zstd", index=False)
    test = paths.find_project().folder / paths.processed(found[0].run.task) / "test.parquet"
    references = pd.read_parquet(test)[PAIR[1]].tolist()
    translated = [shares(one, references) for one in found if (one.folder / TRANSLATIONS).is_file()]
    if not translated:
        raise InputError("no finished translation here; run: isoscope train hybrid")
    pd.concat(translated, axis="columns").to_parquet(target / "shares.parquet", compression="zstd", index=False)


def _named(text: str) -> tuple[str, Path]:
    name, _, file = text.partition("=")
    return name, Path(file)


if __name__ == "__main__":
    told(main)
