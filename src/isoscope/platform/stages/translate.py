"""`isoscope translate`: translate any text with the model of a run, and score it if there are references."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import torch
from tqdm import tqdm

from isoscope.base.atomic_files import write_text
from isoscope.base.parquet import write_parquet
from isoscope.data import tokens
from isoscope.data.checkpoints import loadable_config
from isoscope.data.plain import Pairs
from isoscope.metrics.translation_scores import bleu_shares, translation_scores
from isoscope.models.build import check_device
from isoscope.models.encoder import positions
from isoscope.models.language import from_run
from isoscope.models.translation import written

PAGE = {"made_by": "isoscope translate"}
"""Entry that marks a manifest as that of translations."""
BATCH = 64
"""Sentences of a batch."""


def translate(
    folder: Path, pairs: Pairs, *, beams: int, max_length: int | None, device: str, threads: int
) -> pd.DataFrame:
    """Return a row per sentence: source, translation, and with references reference.

    Search as in training: width `beams` (1: greedy), texts of at most `max_length` tokens (None: as many as the model
    has positions). Raises `InputError` if `folder` holds no translation model of a run.
    """
    check_device(device, key="--device", cure="cpu")
    torch.set_num_threads(threads)
    loadable_config(folder)
    model = from_run("translation", folder).to(device).eval()
    tokenizer, most = tokens.load(folder), min(max_length or positions(model), positions(model))
    rows = pa.table({"sentence": pairs.sources})
    ids = [np.array(one.ids) for one in tokens.encodings(tokenizer, rows, max_length=most)]
    found: dict[int, str] = {}
    by_length = sorted(range(len(ids)), key=lambda row: len(ids[row]))
    with tqdm(total=len(ids), desc="translate", unit="sentence") as bar:
        for start in range(0, len(ids), BATCH):
            part = by_length[start : start + BATCH]
            read = [ids[row] for row in part]
            for row, one in zip(part, written(model, read, beams=beams, max_length=most), strict=True):
                found[row] = str(tokenizer.backend.decode(one, skip_special_tokens=True)).strip()
            bar.update(len(part))
    columns: dict[str, Any] = {"source": pairs.sources, "translation": [found[row] for row in range(len(ids))]}
    return pd.DataFrame(columns | ({} if pairs.references is None else {"reference": pairs.references}))


def write(translations: pd.DataFrame, facts: dict[str, Any], out: Path, *, tokenize: str) -> dict[str, Any]:
    """Write manifest.json, translations.parquet and with references bleu.json; return the scores.

    `tokenize`: sacrebleu's name for the words of BLEU.
    """
    scores: dict[str, Any] = {}
    out.mkdir(parents=True, exist_ok=True)
    (out / "bleu.json").unlink(missing_ok=True)  # of an earlier call with references
    write_text(out / "manifest.json", json.dumps(PAGE | facts, indent=1) + "\n", "table")
    if "reference" in translations:
        written, sources, references = (translations[name].tolist() for name in ("translation", "source", "reference"))
        scores = translation_scores(written, sources, references, tokenize=tokenize)._asdict()
        translations = translations.assign(bleu_share=bleu_shares(written, references, tokenize=tokenize))
        write_text(out / "bleu.json", json.dumps(scores, indent=1) + "\n", "table")
    write_parquet(translations, out / "translations.parquet")
    return scores
