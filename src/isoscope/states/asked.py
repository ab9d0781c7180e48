"""What `isoscope geometry` and `isoscope spaces` read and make. Heavy libraries are imported when they are used.

The command line is made of the functions' parameters and of `OPTIONS`; their docstrings are its help.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from isoscope.base.errors import InputError
from isoscope.states.choices import ANALYSES, MEASURES, SPACES_COMPARED, Settings, SpaceSettings

if TYPE_CHECKING:
    from isoscope.data.plain import Texts
    from isoscope.states.given_checkpoints import Checkpoint
    from isoscope.states.translated_words import Translation

OPTIONS = {"geometry": Settings, "spaces": SpaceSettings}
"""Command → its further options."""


class Asked(NamedTuple):
    """Sentences, and what to make of checkpoints: `make(checkpoints, cache)` returns tables by name, and facts."""

    texts: "Texts"
    make: Callable[[Sequence[str], Path], tuple[dict[str, Any], dict[str, Any]]]


def geometry(
    text: Annotated[Path, "Sentences: txt (one per line), csv, tsv, jsonl or parquet"],
    column: Annotated[str | None, "Column of the text [default: sentence or text]"] = None,
    labels: Annotated[str | None, "Column of the classes"] = None,
    **options: Any,
) -> Asked:
    """Analyse any checkpoint on any sentences: tables, figures and one HTML page.

    Analyses: geometry, planes, probes, attention, the embedding block, spectra, persistence diagrams. Each checkpoint
    is compared with its twin with random weights. A second call into the same folder computes only what is missing; its
    page shows what that call asks for. Works outside a project. For a first look, in about a minute:
    --analysis measures --analysis planes. Every layer of one checkpoint against every layer of another, as in
    isoscope spaces: --analysis spaces.

    Example: isoscope geometry ./my-bert bert-base-uncased --text reviews.csv --column review --labels stars --out out
    """
    from isoscope import plugins
    from isoscope.data.plain import read_texts

    known = tuple(dict.fromkeys((*MEASURES, *plugins.MEASURES)))
    several = {name: tuple(dict.fromkeys(filter(None, options[name]))) for name in ("analyses", "measures", "vectors")}
    usual = {"analyses": ANALYSES, "measures": known, "vectors": ()}
    settings = Settings(**options | usual | {name: chosen for name, chosen in several.items() if chosen})
    if unknown := [one for one in settings.measures if one not in known]:
        raise InputError(f"--measure {unknown[0]}: expected {', '.join(known)}")
    if "classes" in several["measures"] and not labels:
        raise InputError("--measure classes: the texts have no classes; name their column with --labels")
    texts = read_texts(text, column=column or None, labels=labels or None)  # MLproject passes an empty text for none

    def make(checkpoints: Sequence[str], cache: Path) -> tuple[dict[str, Any], dict[str, Any]]:
        from isoscope.states import checkpoint_tables

        given, grids = (_found(checkpoints, settings), texts, settings, cache), None
        if SPACES_COMPARED in settings.analyses:
            from isoscope.states import compared_checkpoints

            grids = compared_checkpoints.grids(*given)
        return checkpoint_tables.geometry(*given, grids=grids)

    return Asked(texts, make)


def spaces(
    text: Annotated[Path, "Sentences: txt (one per line), csv, tsv, jsonl, parquet, or a treebank as parquet"],
    column: Annotated[str | None, "Column [default: tokens and upos, sentence or text]"] = None,
    other_column: Annotated[str | None, "Column of translations: the second of two checkpoints reads it"] = None,
    links: Annotated[Path | None, "Links of the words, a line per pair such as 0-0 1-2 [default: learned]"] = None,
    **options: Any,
) -> Asked:
    """Compare the spaces of two or more checkpoints on the same words: tables, figures and one HTML page.

    AvgSim, SelfSim, MEV and IntraSim by layer; CKA, Procrustes, CCA, SVCCA, PWCCA, RSA and neighbours of every pair of
    layers, each with its null (sentences exchanged) and its interval. The checkpoints may differ in width, depth and
    tokenizer. Next to each is its twin with random weights. A treebank (columns tokens and upos) also gives SelfSim by
    part of speech. With --other-column the models read two languages. Works outside a project.

    Example: isoscope spaces ./mlm ./mt --text sentences.txt --out compared
    """
    from isoscope.data.plain import read_tagged_texts

    settings = SpaceSettings(**options)
    if 2 * settings.neighbours >= settings.items:  # half of the items are candidates
        raise InputError(f"--neighbours {settings.neighbours}: must be less than half of --items {settings.items}")
    texts = read_tagged_texts(text, column=column)

    def make(checkpoints: Sequence[str], cache: Path) -> tuple[dict[str, Any], dict[str, Any]]:
        from isoscope.states import compared_checkpoints

        given = (_found(checkpoints, settings), texts, settings, cache)
        return compared_checkpoints.spaces(*given, translated=_translation(text, column, other_column, links))

    return Asked(texts, make)


def _found(checkpoints: Sequence[str], settings: Settings | SpaceSettings) -> "list[Checkpoint]":
    """Find the checkpoints. Raises `InputError` for an absent device, also if nothing is left to compute."""
    if settings.device == "cuda":
        from isoscope.models.build import check_device

        check_device(settings.device, key="--device", cure="cpu")
    from isoscope.states.given_checkpoints import find

    return find(checkpoints)


def _translation(text: Path, column: str | None, other: str | None, links: Path | None) -> "Translation | None":
    """Return what the second checkpoint reads; None if it reads the text. Raises `InputError` for a lacking option."""
    from isoscope.data.sentence_pairs import read_pairs
    from isoscope.states.translated_words import Translation

    if other is None:
        if links is not None:
            raise InputError(f"--links {links}: without --other-column there is no translation to link")
        return None
    if column is None:
        raise InputError(f"--other-column {other}: name the column of the text, too: --column")
    pairs = read_pairs(text, column=column, references=other, sentences=None)
    assert pairs.references is not None
    return Translation(pairs.references, links, f"{text.name}, column {other!r}")
