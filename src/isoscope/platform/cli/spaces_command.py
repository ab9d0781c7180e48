"""The command that compares the spaces of any checkpoints."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from isoscope.base.errors import InputError
from isoscope.platform.cli.once import LOOK
from isoscope.platform.cli.options import AsJson, app, check_device, check_free, load, say
from isoscope.states.choices import POOLINGS, PROBES, SPACES, SpaceSettings


@app.command(rich_help_panel=LOOK)
def spaces(
    checkpoints: Annotated[
        list[str], typer.Argument(help="Two or more folders or hub names (name@revision).", metavar="CHECKPOINT…")
    ],
    text: Annotated[
        Path, typer.Option(help="Sentences: txt (one per line), csv, tsv, jsonl, parquet, or a treebank as parquet.")
    ],
    out: Annotated[Path, typer.Option(help="Folder for the page, the tables and the cache.")],
    column: Annotated[str | None, typer.Option(help="Column [default: tokens and upos, sentence or text].")] = None,
    other_column: Annotated[
        str | None, typer.Option(help="Column of translations: the second of two checkpoints reads it.")
    ] = None,
    links: Annotated[
        Path | None, typer.Option(help="Links of the words, a line per pair such as 0-0 1-2 [default: learned].")
    ] = None,
    probe: Annotated[
        str, typer.Option(help=f"Items to compare: {' or '.join(PROBES)} (the mean of their words).")
    ] = SPACES.probe,
    occurrences: Annotated[int, typer.Option(help="Words to sample.", min=100)] = SPACES.occurrences,
    per_sentence: Annotated[int, typer.Option(help="Maximum words of a sentence.", min=2)] = SPACES.per_sentence,
    pooling: Annotated[
        str, typer.Option(help=f"A word's vector over its tokens: {', '.join(POOLINGS)}.")
    ] = SPACES.pooling,
    max_length: Annotated[int, typer.Option(help="Maximum tokens per sentence.", min=4)] = SPACES.max_length,
    permutations: Annotated[
        int, typer.Option(help="Permutations of whole sentences, for the null distribution.", min=2)
    ] = SPACES.permutations,
    items: Annotated[
        int, typer.Option(help="Sample of RSA and neighbours: a word each of so many sentences.", min=20)
    ] = (SPACES.items),
    neighbours: Annotated[int, typer.Option(help="Nearest neighbours that are compared.", min=1)] = SPACES.neighbours,
    components: Annotated[
        int | None, typer.Option(help="Principal components of each space for CCA [default: all].", min=1)
    ] = SPACES.components,
    draws: Annotated[int, typer.Option(help="Draws of the bootstrap over sentences.", min=20)] = SPACES.draws,
    histogram: Annotated[int, typer.Option(help="Pairs of words of each distribution.", min=1000)] = SPACES.histogram,
    confidence: Annotated[float, typer.Option(help="Coverage of intervals.", min=0.5, max=0.9999)] = SPACES.confidence,
    seed: Annotated[int, typer.Option(help="Seed of the draws and of the random twins.", min=0)] = SPACES.seed,
    batch_size: Annotated[int, typer.Option(help="Sentences per forward pass.", min=1)] = SPACES.batch_size,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = SPACES.device,
    precision: Annotated[str, typer.Option(help="fp32 or bf16.")] = SPACES.precision,
    threads: Annotated[int, typer.Option(help="CPU threads.", min=1)] = SPACES.threads,
    as_json: AsJson = False,
) -> None:
    """Compare the spaces of two or more checkpoints on the same words: tables, figures and one HTML page.

    AvgSim, SelfSim, MEV and IntraSim by layer; CKA, Procrustes, CCA, SVCCA, PWCCA, RSA and neighbours of every pair of
    layers, each with its null (sentences exchanged) and its interval. The checkpoints may differ in width, depth and
    tokenizer. Next to each is its twin with random weights. A treebank (columns tokens and upos) also gives SelfSim by
    part of speech. With --other-column the models read two languages. Works outside a project.

    Example: isoscope spaces ./mlm ./mt --text sentences.txt --out compared
    """
    asked = dict(locals())
    for name, value, allowed in (
        ("probe", probe, PROBES),
        ("pooling", pooling, POOLINGS),
        ("device", device, ("cpu", "cuda")),
        ("precision", precision, ("fp32", "bf16")),
    ):
        if value not in allowed:
            raise InputError(f"--{name} {value}: expected {', '.join(allowed)}")
    if load("platform.config.comparing").lacks_candidates(neighbours, items):
        raise InputError(f"--neighbours {neighbours}: must be less than half of --items {items}")
    check_free(out, such_as="compared")
    texts = load("data.plain").read_tagged_texts(text, column=column)
    texts.check_enough()
    if texts.left_out:
        print(f"isoscope: {texts.left_out}", file=sys.stderr)
    pages = load("platform.stages.page_folder")
    pages.check_out(out, pages.SPACES)
    settings = SpaceSettings(**{name: asked[name] for name in SpaceSettings._fields})
    check_device(device)
    found = load("states.given_checkpoints").find(checkpoints)
    translated = _translation(text, column, other_column, links)
    with pages.page_folder(out, pages.SPACES):
        given = (found, texts, settings, out / "cache")
        tables, facts = load("states.compared_checkpoints").spaces(*given, translated=translated)
        pages.write_page(out, pages.SPACES, facts, tables)
        shown = load("platform.report.checkpoint_page").page(out)
    made = {
        "checkpoints": {one.name: one.given for one in found},
        "page": str(shown),
        "tables": sorted(map(str, out.glob("*.parquet"))),
        "left_out": texts.left_out,
    }
    say(made, as_json, f"spaces: {shown}")


def _translation(text: Path, column: str | None, other: str | None, links: Path | None) -> Any:
    """Return what the second checkpoint reads; None if it reads the text. Raises `InputError` for a lacking option."""
    if other is None:
        if links is not None:
            raise InputError(f"--links {links}: without --other-column there is no translation to link")
        return None
    if column is None:
        raise InputError(f"--other-column {other}: name the column of the text, too: --column")
    pairs = load("data.plain").read_pairs(text, column=column, references=other, sentences=None)
    return load("data.word_links").Translation(pairs.references, links, f"{text.name}, column {other!r}")
