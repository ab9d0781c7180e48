"""The command that translates any text with a trained model."""

from pathlib import Path
from typing import Annotated

import typer

from isoscope.base.errors import InputError
from isoscope.platform.cli.once import LOOK
from isoscope.platform.cli.options import AsJson, app, check_free, load, say


@app.command(rich_help_panel=LOOK)
def translate(
    checkpoint: Annotated[Path, typer.Argument(help="Folder of a translation model of a run, or of a hybrid.")],
    text: Annotated[Path, typer.Option(help="Sentences: csv, tsv, jsonl or parquet.")],
    column: Annotated[str, typer.Option(help="Column of the sentences.")],
    out: Annotated[Path, typer.Option(help="Folder for the translations and their scores.")],
    references: Annotated[str | None, typer.Option(help="Column of reference translations, for BLEU and chrF.")] = None,
    tokenize: Annotated[
        str | None, typer.Option(help="Words of BLEU, as sacrebleu names them [default: by the references' script].")
    ] = None,
    sentences: Annotated[int | None, typer.Option(help="Only the first sentences [default: all].", min=1)] = None,
    beams: Annotated[int, typer.Option(help="Width of the beam search; 1: greedy.", min=1)] = 1,
    max_length: Annotated[
        int | None, typer.Option(help="Maximum tokens of a text [default: the model's positions].", min=4)
    ] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    threads: Annotated[int, typer.Option(help="CPU threads.", min=1)] = 1,
    as_json: AsJson = False,
) -> None:
    """Translate any text with the model of a run, and score the translations. Works outside a project.

    Writes translations.parquet and, with references, bleu.json: corpus BLEU and chrF by sacrebleu with their
    signatures. Each sentence has its share of BLEU (a jackknife), for intervals over sentences.

    Example: isoscope translate ./model --text ntrex.parquet --column src --references tgt --out translated
    """
    if device not in ("cpu", "cuda"):
        raise InputError(f"--device {device}: expected cpu, cuda")
    if not checkpoint.is_dir():
        raise InputError(f"checkpoint {checkpoint}: no such folder")
    check_free(out, such_as="translated")
    stage = load("platform.stages.translate")
    load("platform.stages.page_folder").check_out(out, stage.PAGE)
    pairs = load("data.plain").read_pairs(text, column=column, references=references, sentences=sentences)
    scripts = load("data.scripts")
    words = tokenize or scripts.words_of_bleu(scripts.language(pairs.references or ()))
    load("metrics.translation_scores").bleu(words, "--tokenize")  # before all is translated: its packages are installed
    options = {"beams": beams, "max_length": max_length}
    rows = stage.translate(checkpoint, pairs, **options, device=device, threads=threads)
    facts = {
        "checkpoint": {str(checkpoint): load("data.checkpoints").checkpoint_digest(checkpoint)},
        "text": {text.name: load("base.atomic_files").sha256(text)},
        "columns": [column, references],
        "sentences": sentences,
        "device": device,
        **options,
    }
    with load("platform.stages.page_folder").page_folder(out, stage.PAGE):
        scores = stage.write(rows, facts, out, tokenize=words)
    told = f"; BLEU {scores['bleu']:.1f} (words: {words}), chrF {scores['chrf']:.1f}" if scores else ""
    say({"out": str(out), "sentences": len(rows), **scores}, as_json, f"translate: {len(rows)} sentences, {out}{told}")
