"""Stage `prepare@<task>`: turn text from its source into parquet files, a manifest and a tokenizer."""

import sys
from pathlib import Path

from filelock import Timeout

from isoscope.base import built_in, paths
from isoscope.base.atomic_files import replacing, write_text
from isoscope.platform.config.data import Data, JointTokenizer
from isoscope.platform.runs.locks import file_lock
from isoscope.platform.runs.prepared import SETTINGS, VOCABULARY, seal
from isoscope.platform.runs.secrets import scrub, scrub_tree


def prepare(data: Data, *, task: str, project: paths.Project, output: Path | None = None) -> Path:
    """Write `data/processed/<task>/`: a parquet file per split, `manifest.json`, `settings.json`, `tokenizer/`.

    `settings.json` has all settings that determine the other files, and their hashes; `tokenizer/` is the task's
    tokenizer.
    With `output`, write them there. The folder appears as a whole or not at all. Equal settings give equal bytes. A
    second process waits for the first. Raises `InputError` for bad data.
    """
    science = built_in.load(built_in.STAGES, "prepare")
    corpus = science.read(data.source.model_dump(), project.folder)
    read = [corpus]
    if isinstance(data.tokenizer, JointTokenizer):
        read = [science.read(source.model_dump(), project.folder) for source in data.tokenizer.sources]
        corpus = corpus._replace(facts=corpus.facts | {VOCABULARY: [one.facts.get("inputs", {}) for one in read]})
    corpus = corpus._replace(licence=scrub(corpus.licence), facts=scrub_tree(corpus.facts))  # the manifest is shared
    target = output or project.folder / paths.processed(task)
    lock = file_lock(project.locks / f"prepare-{task}.lock")
    try:
        alone = lock.acquire(timeout=0)
    except Timeout:
        print(f"isoscope: prepare {task}: another process writes it; waiting for its end", file=sys.stderr)
        alone = lock.acquire()
    with alone, replacing(target, "data") as fresh:
        notes = science.write(corpus, read, data.tokenizer.model_dump(), fresh)
        write_text(fresh / SETTINGS, seal(fresh, data), "data")
    for note in (*corpus.notes, *notes):
        print(f"isoscope: {note}", file=sys.stderr)
    return target
