"""Translate any text with the model of a run, and score it if there are references."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import torch
from tqdm import tqdm

from isoscope.base.atomic_files import sha256
from isoscope.data import tokens
from isoscope.data.checkpoints import checkpoint_digest, loadable_config
from isoscope.data.plain import Pairs, read_pairs
from isoscope.data.scripts import language, words_of_bleu
from isoscope.metrics.translation_scores import bleu, bleu_shares, translation_scores
from isoscope.models.build import check_device
from isoscope.models.encoder import positions
from isoscope.models.language_models import from_run
from isoscope.models.translation import written

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
    with tqdm(total=len(ids), desc="translate", unit="sentence", disable=None) as bar:
        for start in range(0, len(ids), BATCH):
            part = by_length[start : start + BATCH]
            read = [ids[row] for row in part]
            for row, one in zip(part, written(model, read, beams=beams, max_length=most), strict=True):
                found[row] = str(tokenizer.backend.decode(one, skip_special_tokens=True)).strip()
            bar.update(len(part))
    columns: dict[str, Any] = {"source": pairs.sources, "translation": [found[row] for row in range(len(ids))]}
    return pd.DataFrame(columns | ({} if pairs.references is None else {"reference": pairs.references}))


def scored(translations: pd.DataFrame, *, tokenize: str) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return translations with each sentence's share of BLEU, and corpus scores; neither changes without references.

    `tokenize`: sacrebleu's name for the words of BLEU.
    """
    if "reference" not in translations:
        return translations, {}
    texts, sources, references = (translations[name].tolist() for name in ("translation", "source", "reference"))
    scores = translation_scores(texts, sources, references, tokenize=tokenize)._asdict()
    return translations.assign(bleu_share=bleu_shares(texts, references, tokenize=tokenize)), scores


def translated(
    folder: Path,
    text: Path,
    *,
    column: str,
    references: str | None,
    tokenize: str | None,
    sentences: int | None,
    **options: Any,
) -> tuple[pd.DataFrame, dict[str, Any], dict[str, Any]]:
    """Translate a file: return the translations, their scores (none without references), and the facts of both.

    `sentences`: only the first; `tokenize`: by default as the references' script needs; `options` of `translate`.
    """
    pairs = read_pairs(text, column=column, references=references, sentences=sentences)
    words = tokenize or words_of_bleu(language(pairs.references or ()))
    bleu(words, "--tokenize")  # before all is translated: its packages are installed
    table, scores = scored(translate(folder, pairs, **options), tokenize=words)
    facts = {
        "checkpoint": {str(folder): checkpoint_digest(folder)},
        "text": {text.name: sha256(text)},
        "columns": [column, references],
        "sentences": sentences,
        "words": words,
        **{name: options[name] for name in ("device", "beams", "max_length")},
    }
    return table, scores, facts
