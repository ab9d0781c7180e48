"""What commands on checkpoints read and make. Heavy libraries are imported when they are used.

The command line is made of the functions' parameters and of `OPTIONS`; their docstrings are its help.
"""

from collections.abc import Callable, Mapping, Sequence
from math import isnan, nan
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from annotated_types import Ge

from isoscope.base.errors import InputError
from isoscope.states.choices import ANALYSES, SPACES_COMPARED, Device, ScoreSettings, Settings, SpaceSettings

if TYPE_CHECKING:
    from isoscope.data.plain import Texts
    from isoscope.states.given_checkpoints import Checkpoint
    from isoscope.states.given_vectors import GivenVectors

OPTIONS = {"geometry": Settings, "spaces": SpaceSettings, "evaluate": ScoreSettings}
"""Command → its further options."""


class Made(NamedTuple):
    """What is made of checkpoints: tables by name, and the facts of the manifest.

    `values`: file → its JSON object. `told`: numbers and a line for the user, if there is no page, and whether the
    command fails. `runs`: of a tracked command, each a `checkpoint_scores.Logged`.
    """

    tables: dict[str, Any]
    facts: dict[str, Any]
    values: Mapping[str, dict[str, Any]] = MappingProxyType({})
    told: tuple[dict[str, Any], str, bool] | None = None
    runs: tuple[Any, ...] = ()


class Asked(NamedTuple):
    """What a user is told of the sentences, and what to make of checkpoints with a folder for the cache."""

    notes: tuple[str, ...]
    make: Callable[[Sequence[str], Path], Made]


def geometry(
    text: Annotated[
        str | None, "Sentences: txt (one per line), csv, tsv, jsonl or parquet. Of vectors: a column of theirs, too"
    ] = None,
    column: Annotated[str | None, "Column of the text [default: sentence or text]"] = None,
    labels: Annotated[str | None, "Column of the classes"] = None,
    groups: Annotated[str | None, "Column that is equal in rows that belong together, such as a document's"] = None,
    sts: Annotated[
        str | None, "Scored pairs for the measure sts (columns sentence1, sentence2, score), or a name in ISOSCOPE_HUB"
    ] = None,
    **options: Any,
) -> Asked:
    """Analyse any checkpoint on any sentences, or any vectors: tables, figures and one HTML page.

    Analyses: geometry, planes, probes, attention, the embedding block, spectra, persistence diagrams. Each checkpoint
    is compared with its random-weights control. A second call into the same folder computes only what is missing; its
    page shows what that call asks for. Works outside a project. For a first look, in about a minute:
    --analysis measures --analysis planes. Every layer of one checkpoint against every layer of another, as in
    isoscope spaces: --analysis spaces.

    Vectors are a file ending in .npy, .parquet, .safetensors or .csv, a vector per row, in place of a checkpoint:
    isoscope geometry vectors.parquet --labels topic --out out. They need no --text.

    Example: isoscope geometry ./my-bert bert-base-uncased --text reviews.csv --column review --labels stars --out out
    """
    from isoscope import plugins
    from isoscope.data.hub import find_file
    from isoscope.data.plain import read_texts

    known = tuple(plugins.MEASURES)
    scored = [name for name in known if plugins.MEASURES[name].of == "pairs"]
    pairs = find_file(sts, Path(), key="--sts") if sts else None
    asked = tuple(name for name in known if pairs or name not in scored)
    usual = {"analyses": ANALYSES, "measures": asked, "vectors": (), "transforms": ("none",)}
    several = {name: tuple(dict.fromkeys(filter(None, options[name]))) or every for name, every in usual.items()}
    settings = Settings(**options | several)
    if unknown := [one for one in settings.measures if one not in known]:
        raise InputError(f"--measure {unknown[0]}: expected {', '.join(known)}")
    if not pairs and (lacking := [one for one in settings.measures if one in scored]):
        raise InputError(f"--measure {lacking[0]}: needs pairs of sentences with scores; name their file with --sts")
    if pairs and not {*settings.measures} & {*scored}:
        raise InputError(f"--sts {sts}: no measure of pairs is asked for; add --measure {scored[0]}")
    if "classes" in options["measures"] and not labels:
        raise InputError("--measure classes: the texts have no classes; name their column with --labels")
    columns = {"labels": labels or None, "groups": groups or None}  # MLproject passes an empty text for none
    texts = read_texts(Path(text), column=column or None, **columns) if text and Path(text).is_file() else None

    def make(checkpoints: Sequence[str], cache: Path) -> Made:
        from isoscope.states import checkpoint_tables
        from isoscope.states.given_checkpoints import kinds
        from isoscope.states.given_vectors import row_texts

        found, grids = _found(checkpoints, settings, [text, *columns.values()]), None
        files, models = kinds(found)
        if files and SPACES_COMPARED in settings.analyses:
            raise InputError("--analysis spaces: reads words; compare vectors by: isoscope spaces A B --key COLUMN")
        if not models and pairs:
            raise InputError(f"--sts {sts}: a checkpoint reads the pairs, and vectors have none")
        of = row_texts(files, texts, text, column=column or None, alone=not models, **columns)
        given = found, of, settings, cache
        if SPACES_COMPARED in settings.analyses:
            from isoscope.states import compared_checkpoints

            grids = compared_checkpoints.grids(models, *given[1:])
        return Made(*checkpoint_tables.geometry(*given, pairs=pairs, grids=grids))

    return Asked(_notes(texts), make)


def _notes(texts: "Texts | None") -> tuple[str, ...]:
    """Return what a user is told of sentences. Raises `InputError` for too few."""
    if texts is None:
        return ()
    texts.check_enough()
    return (*filter(None, [texts.left_out]), *texts.notes)


def spaces(
    text: Annotated[
        Path | None, "Sentences: txt (one per line), csv, tsv, jsonl, parquet, or a treebank as parquet"
    ] = None,
    column: Annotated[str | None, "Column [default: tokens and upos, sentence or text]"] = None,
    other_column: Annotated[str | None, "Column of translations: the second of two checkpoints reads it"] = None,
    links: Annotated[Path | None, "Links of the words, a line per pair such as 0-0 1-2 [default: learned]"] = None,
    key: Annotated[str | None, "Of vectors: column by which rows are joined [default: row by row]"] = None,
    groups: Annotated[str | None, "Of vectors: column of what belongs together, in place of sentences"] = None,
    **options: Any,
) -> Asked:
    """Compare the spaces of two or more checkpoints on the same words: tables, figures and one HTML page.

    AvgSim, SelfSim, MEV and IntraSim by layer; CKA, Procrustes, CCA, SVCCA, PWCCA, RSA and neighbours of every pair of
    layers, each with its null (sentences exchanged) and its interval. The checkpoints may differ in width, depth and
    tokenizer. Next to each is its random-weights control. A treebank (columns tokens and upos) also gives SelfSim by
    part of speech. With --other-column the models read two languages. Works outside a project.

    Files of vectors (.npy, .parquet, .safetensors, .csv) are compared in the same way on the rows that all have:
    isoscope spaces a.parquet b.parquet --key id --out compared

    Example: isoscope spaces ./mlm ./mt --text sentences.txt --out compared
    """
    from isoscope.data.plain import read_tagged_texts

    settings = SpaceSettings(**options)
    if 2 * settings.neighbours >= settings.items:  # half of the items are candidates
        raise InputError(f"--neighbours {settings.neighbours}: must be less than half of --items {settings.items}")
    texts = None if text is None else read_tagged_texts(text, column=column)

    def make(checkpoints: Sequence[str], cache: Path) -> Made:
        from isoscope.states import compared_checkpoints, compared_vectors
        from isoscope.states.given_checkpoints import kinds

        files, models = kinds(_found(checkpoints, settings, [key, groups]))
        if files and models:
            raise InputError(
                f"spaces: {files[0].given} holds vectors, and {models[0].given} is a model; save its vectors of the "
                "same rows, too, and compare the files"
            )
        if files and texts is not None:
            raise InputError(f"--text {text}: files of vectors are compared row by row, or by --key; leave it out")
        if files:
            return Made(*compared_vectors.spaces(files, settings, cache, key=key, groups=groups))
        if named := [f"--{name}" for name, one in (("key", key), ("groups", groups)) if one]:
            raise InputError(f"{named[0]}: joins files of vectors; checkpoints read the same text")
        if text is None or texts is None:
            raise InputError("--text: checkpoints read sentences; name their file")
        translated = compared_checkpoints.translation(text, column, other_column, links)
        return Made(*compared_checkpoints.spaces(models, texts, settings, cache, translated=translated))

    return Asked(_notes(texts), make)


def translate(
    text: Annotated[Path, "Sentences: csv, tsv, jsonl or parquet"],
    column: Annotated[str, "Column of the sentences"],
    references: Annotated[str | None, "Column of reference translations, for BLEU and chrF"] = None,
    tokenize: Annotated[
        str | None, "Words of BLEU, as sacrebleu names them [default: by the references' script]"
    ] = None,
    sentences: Annotated[int | None, Ge(1), "Only the first sentences [default: all]"] = None,
    beams: Annotated[int, Ge(1), "Width of the beam search; 1: greedy"] = 1,
    max_length: Annotated[int | None, Ge(4), "Maximum tokens of a text [default: the model's positions]"] = None,
    device: Device = "cpu",
    threads: Annotated[int, Ge(1), "CPU threads"] = 1,
) -> Asked:
    """Translate any text with the model of a run, and score the translations. Works outside a project.

    The checkpoint is a folder: of a translation model of a run, or of a hybrid. Writes translations.parquet and, with
    references, bleu.json: corpus BLEU and chrF by sacrebleu with their signatures. Each sentence has its share of
    BLEU (a jackknife), for intervals over sentences.

    Example: isoscope translate ./model --text ntrex.parquet --column src --references tgt --out translated
    """

    def make(checkpoints: Sequence[str], cache: Path) -> Made:
        from isoscope.models.translated import translated

        folder, *others = map(Path, checkpoints)
        if others or not folder.is_dir():
            raise InputError(f"checkpoint {checkpoints[-1]}: expected one folder of a translation model")
        table, scores, facts = translated(
            folder,
            text,
            column=column,
            references=references,
            tokenize=tokenize,
            sentences=sentences,
            beams=beams,
            max_length=max_length,
            device=device,
            threads=threads,
        )
        said = f"; BLEU {scores['bleu']:.1f} (words: {facts['words']}), chrF {scores['chrf']:.1f}" if scores else ""
        told = {"sentences": len(table), **scores}, f"{len(table)} sentences{said}", False
        return Made({"translations": table}, facts, {"bleu.json": scores}, told)

    return Asked((), make)


def evaluate(
    text: Annotated[Path, "Texts with what is true of them: csv, tsv, jsonl or parquet"],
    column: Annotated[str | None, "Column of the text, of a pair the first [default: sentence or text]"] = None,
    other_column: Annotated[str | None, "Column of the second text of a pair"] = None,
    labels: Annotated[str | None, "Column of the labels, as the model names them"] = None,
    separator: Annotated[str | None, "Text between the labels of a row [default: the column holds lists]"] = None,
    score: Annotated[str | None, "Column of the scores, of a regression"] = None,
    metrics: Annotated[tuple[str, ...], "--metric", "A metric of the library evaluate: its name, or a file"] = (),
    at_least: Annotated[tuple[str, ...], "Fail (exit code 1) below such as accuracy=.8"] = (),
    at_most: Annotated[tuple[str, ...], "Fail (exit code 1) above such as loss=.5"] = (),
    **options: Any,
) -> Asked:
    """Score any classifier or regression on any file, with intervals. Works outside a project.

    The checkpoint is that of a run (a snapshot, too), of an export, or anybody's with a sequence-classification head.
    The folder of a run gives its chosen epoch; the folder of an arm all its seeds. Intervals are over rows; of an arm
    over seeds and rows (three seeds or more). --out receives predictions.parquet and scores.json. In a project the
    scores are a run in MLflow, which names the checkpoint and the file by their digests. Other metrics: --metric f1 is
    loaded from the hub, --metric ./mine.py from a file.

    Example: isoscope evaluate models/fusion/additive --text new.csv --column review --labels stars
    """
    settings, bounds = ScoreSettings(**options), (*_bounds("--at-least", at_least), *_bounds("--at-most", at_most))
    if (target := labels or score) is None or (labels and score):
        raise InputError("--labels, --score: name one column of what the model should predict")
    if separator is not None and not labels:
        raise InputError(f"--separator {separator}: splits the column of --labels; name that column, too")

    def make(checkpoints: Sequence[str], cache: Path) -> Made:
        from isoscope.data.plain import Targets, read_targets
        from isoscope.states import checkpoint_scores

        def read(kind: str) -> Targets:
            if (kind == "score") != bool(score):
                asked = "--score" if kind == "score" else "--labels"
                raise InputError(f"checkpoint {checkpoints[0]}: predicts {kind}; name their column by {asked}")
            if separator is not None and kind != "labels":
                raise InputError(f"--separator {separator}: checkpoint {checkpoints[0]} predicts one class per text")
            given: dict[str, Any] = {"column": column, "other": other_column, "separator": separator}
            return read_targets(text, target=str(target), kind=kind, **given)

        return Made(*checkpoint_scores.evaluated(checkpoints, read, [*filter(None, metrics)], bounds, settings))

    return Asked((), make)


def _bounds(flag: str, given: Sequence[str]) -> list[tuple[str, str, float]]:
    """Return flag, metric and number of each `metric=number`."""
    found = []
    for one in filter(None, given):
        name, _, number = one.partition("=")
        try:
            found.append((flag, name, float(number)))
        except ValueError:
            found.append((flag, name, nan))
        if isnan(found[-1][2]):
            raise InputError(f"{flag} {one}: expected a metric and a number, such as accuracy=.8")
    return found


def _found(
    checkpoints: Sequence[str], settings: Settings | SpaceSettings, others: Sequence[str | None] = ()
) -> "list[Checkpoint | GivenVectors]":
    """Find checkpoints and files of vectors, in which the columns `others` are no vectors.

    Raises `InputError` for an absent device, also if nothing is left to compute.
    """
    if settings.device == "cuda":
        from isoscope.models.build import check_device

        check_device(settings.device, key="--device", cure="cpu")
    from isoscope.states.given_checkpoints import find_any

    return find_any(checkpoints, others)
