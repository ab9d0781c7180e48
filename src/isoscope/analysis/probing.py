"""Probes of a run: what a linear reader finds in each layer over training, beside control tasks and baselines.

Folds hold whole sentences out and are the same in all snapshots, layers and baselines.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from isoscope.analysis.cells import ALIKE
from isoscope.analysis.trajectory import RANDOM, Arrays, Snapshot, Trajectory
from isoscope.errors import InputError
from isoscope.geometry.moments import Floats, Ints
from isoscope.geometry.probes import (
    PENALTIES,
    LinearProbe,
    RidgeProbe,
    linear_probes,
    online_code_lengths,
    ridge_probe,
    selectivity,
)

COLUMNS = (
    *("snapshot", "step", "epoch", "best", "layer", "vectors", "task", "metric", "score", "chance", "control"),
    *("selectivity", "compression", "control_compression", "penalty", "trained", "n", "d", "distinct", "degenerate"),
)
TASKS = (
    *("label", "first token", "length", "bigram shift"),
    *("word position", "word order", "part of speech", "tree depth"),
)
VALUES = ("tree depth",)  # labels that are numbers: ridge regression, scored by R²
CONTROL = "control of "
FREQUENT = 10  # words that a tag needs to be a class of its own
FEATURES = 5000  # terms of TF-IDF in the probe's own folds, the most frequent ones
WORD = r"(?u)\b\w+\b"  # words of one letter count, unlike in scikit-learn's default
Labels = npt.NDArray[Any]
Vectors = npt.NDArray[np.float32]
Rows = Iterator[dict[str, Any]]
Scores = dict[str, LinearProbe | RidgeProbe]


class Cloud(NamedTuple):
    """Vectors of one kind, what is asked of them, and the control task of each task that has one; labels `[n]`.

    `points(arrays, layer)` takes the vectors out of the arrays `needs`. `groups`: the sentence of each; `strata` as
    `linear_probes` takes them; `words`: the words behind each, none for sentences.
    """

    vectors: str
    needs: tuple[str, ...]
    points: Callable[[Arrays, int], Vectors]
    groups: Ints
    tasks: dict[str, Labels]
    controls: dict[str, Labels]
    strata: Labels | None = None
    words: tuple[Labels, ...] = ()


def probing_table(
    run: Trajectory,
    *,
    vectors: Sequence[str] = ("first", "mean"),
    seed: int,
    folds: int = 5,
    penalties: Sequence[float] = PENALTIES,
    share: float = 1.0,
    tasks: Collection[str] = TASKS,
    snapshots: Collection[str] | None = None,
    codes: Collection[str] | None = None,
    trees: Collection[str] | None = None,
) -> pd.DataFrame:
    """A row for each snapshot, layer, kind of vectors and task: score on sentences held out, chance, control, code.

    `score`: accuracy (`chance`: the largest class's share) or R². `control`: the score with labels permuted (sentences)
    or drawn once for each word type (words: memorisable, as types are shared by training and test). `compression`:
    uniform over online code length of the labels. `share` of each training part is trained on, `trained` points; R² is
    of the whole part. `distinct`: how many different vectors there are; a cell of one is degenerate and has no score, a
    cell of few knows no more than what tells these few apart. `snapshots`: names, None for all. `codes`, `trees`: those
    whose code lengths are taken, and on which a treebank's tasks are run; None for the first, the chosen one and the
    twin. Raises `InputError` where nothing was measured.
    """
    ends = {run.trained[0].name, run.best.name, RANDOM}
    codes, trees = (ends if names is None else names for names in (codes, trees))
    settings = {"seed": seed, "folds": folds, "penalties": penalties, "share": share}
    rows: list[dict[str, Any]] = []
    for snapshot, arrays, cloud, layer in _places(run, clouds(run, vectors, tasks, seed=seed), snapshots):
        if cloud.vectors == "treebank" and snapshot.name not in trees:
            continue
        points = cloud.points(arrays, layer)
        found = {"n": len(points), "d": points.shape[1], "distinct": distinct(points)}
        found |= {"degenerate": found["distinct"] == 1, "trained": round(share * len(points) * (1 - 1 / folds))}
        figures = {} if found["degenerate"] else _figures(cloud, points, snapshot.name in codes, settings)
        who = {**snapshot._asdict(), "snapshot": snapshot.name, "layer": layer, "vectors": cloud.vectors}
        rows += [
            {**who, "task": task, "metric": _metric(task), **figures.get(task, {}), **found} for task in cloud.tasks
        ]
    if not rows:
        raise InputError("probes: nothing was measured; do vectors and tasks name what the run has?")
    types = dict.fromkeys(("step", "epoch"), "Int64") | dict.fromkeys(COLUMNS[8:15], "float64")
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype(types)


def baselines_table(
    run: Trajectory,
    train_texts: Sequence[str | tuple[str, ...]],
    train_labels: npt.ArrayLike,
    *,
    seed: int,
    draws: int = 5,
    folds: int = 5,
    penalties: Sequence[float] = PENALTIES,
) -> pd.DataFrame:
    """What needs no encoder, on the same points and folds: baseline, task, metric, score, sd, chance, n, d, trained.

    The majority class of train. TF-IDF of uni- and bigrams known from `train_texts`, with logistic regression in the
    probe's folds; and the same trained on all of `train_labels`, C = 1. Bags of word embeddings before training and at
    the chosen epoch. `draws` of random vectors of words bound to random ones of positions and summed: mean and sd. For
    tasks of words, their types alone, one-hot. `trained`: labels seen in training.
    """
    settings = {"seed": seed, "folds": folds, "penalties": penalties}
    unscaled = settings | {"standardise": False}
    texts, known = [_joined(text) for text in train_texts], np.asarray(train_labels)
    judged = [_joined(text) for text in run.probe.filter(like="text").itertuples(index=False, name=None)]
    width = run.arrays(run.best).shape("mean")[-1]
    rows: list[dict[str, Any]] = []
    for cloud in clouds(run, ("bag",), set(TASKS) - {"bigram shift"}, seed=seed):
        if cloud.words:
            types = np.concatenate([(part[:, None] == np.unique(part)).astype(float) for part in cloud.words], 1)
            rows += _baseline("word types", cloud, [types], unscaled)
            continue
        if "label" in cloud.tasks:
            rows += _trained_on_train(cloud.tasks["label"], judged, texts, known)
        tfidf = TfidfVectorizer(ngram_range=(1, 2), token_pattern=WORD, max_features=FEATURES).fit(texts)
        rows += _baseline("TF-IDF", cloud, [tfidf.transform(judged).toarray()], unscaled)
        for name, snapshot in (("first snapshot", run.trained[0]), ("chosen epoch", run.best)):
            if "bag" in (arrays := run.arrays(snapshot)).names:
                rows += _baseline(f"bag of embeddings, {name}", cloud, [arrays.whole("bag")], settings)
        bound = [hrr_bags(run.probe["ids"].tolist(), width=width, seed=seed + draw) for draw in range(draws)]
        rows += _baseline("words bound to positions", cloud, bound, settings)
    return pd.DataFrame(rows)


def hrr_bags(sentences: Sequence[Sequence[int]], *, width: int, seed: int) -> Floats:
    """Sums over a sentence of word ⊛ position (circular convolution) `[n, width]`, both drawn from N(0, 1/width).

    A binding has expected squared length 1, so a sentence of T tokens T. Source: Plate 1995.
    """
    random = np.random.default_rng((seed, width))
    words, of = np.unique(np.concatenate([np.asarray(one) for one in sentences]), return_inverse=True)
    lengths = np.array([len(one) for one in sentences])
    ends = np.cumsum(lengths)
    tables = (random.standard_normal((size, width)) / np.sqrt(width) for size in (len(words), int(lengths.max())))
    word, position = (np.fft.rfft(table) for table in tables)
    sums = [(word[of[end - size : end]] * position[:size]).sum(0) for end, size in zip(ends, lengths, strict=True)]
    return np.asarray(np.fft.irfft(np.stack(sums), n=width))


def distinct(points: npt.ArrayLike) -> int:
    """How many different vectors there are among `[n, d]`: further apart than `ALIKE` of their length."""
    cloud = np.asarray(points, np.float64)
    order = np.argsort(cloud @ np.random.default_rng(0).standard_normal(cloud.shape[1]), kind="stable")
    steps = np.linalg.norm(np.diff(cloud[order], axis=0), axis=1)
    return 1 + int((steps > ALIKE * np.sqrt((cloud**2).sum(1).mean())).sum())


def clouds(run: Trajectory, vectors: Sequence[str], tasks: Collection[str], *, seed: int) -> list[Cloud]:
    """What is asked of a run: those of `tasks` that it has the sentences, words or treebank for, and two classes in.

    Raises `InputError` for a task that there is none of.
    """
    if unknown := set(tasks) - set(TASKS):
        raise InputError(f"probes: no task {sorted(unknown)[0]!r}; there are {', '.join(TASKS)}")
    found = [*_sentences(run.probe, vectors, seed), *_words(run.words, seed)]
    found += [] if run.treebank is None else _treebank(run.treebank, seed)
    kept = []
    for cloud in found:
        several = [
            {name: of for name, of in labels.items() if name in tasks and len(np.unique(of)) > 1}
            for labels in (cloud.tasks, cloud.controls)
        ]
        kept.append(cloud._replace(tasks=several[0], controls=several[1]))
    return [cloud for cloud in kept if cloud.tasks]


def _sentences(probe: pd.DataFrame, vectors: Sequence[str], seed: int) -> Iterator[Cloud]:
    label, length, shifted = (probe[name].to_numpy() for name in ("label", "tokens", "shifted"))
    counts = probe["token_1"].map(probe["token_1"].value_counts())
    first = probe["token_1"].where(counts >= len(probe) / 10, -1).to_numpy()
    tasks = {"label": label, "first token": first, "length": _terciles(length)}
    # A sentence too short to have words changed about would give itself away.
    kept = np.flatnonzero(shifted | (length >= length[shifted].min(initial=length.max())))
    moved, random = shifted[kept], np.random.default_rng((seed, 10))
    permuted, shuffled = random.permutation(label), random.permutation(moved)
    every, both, pairs = np.arange(len(probe)), _together(label, permuted), _together(moved, shuffled)
    for name in vectors:
        yield Cloud(name, (name,), partial(_layer, name), every, tasks, {"label": permuted}, both)
        points, needs = partial(_shifted, name, shifted, kept), (name, f"shifted_{name}")
        yield Cloud(name, needs, points, kept, {"bigram shift": moved}, {"bigram shift": shuffled}, pairs)


def _words(words: pd.DataFrame, seed: int) -> Iterator[Cloud]:
    sentence, position, text = (words[name].to_numpy() for name in ("sentence", "position", "text"))
    place = _terciles(position)
    asked, control = {"word position": place}, {"word position": _by_type(text, place, seed)}
    yield Cloud("words", ("words",), partial(_layer, "words"), sentence, asked, control, None, (text,))
    one, other = np.nonzero(np.triu(sentence[:, None] == sentence, 1) & (position[:, None] != position))
    flip = np.random.default_rng((seed, 11)).random(len(one)) < 0.5
    one, other = np.where(flip, other, one), np.where(flip, one, other)
    rank = _by_type(text, np.arange(len(text)), seed)  # the control: which type stands first in a drawn order of types
    asked, control = {"word order": position[one] < position[other]}, {"word order": rank[one] < rank[other]}
    points = partial(_pairs, one, other)
    yield Cloud("words", ("words",), points, sentence[one], asked, control, None, (text[one], text[other]))


def _treebank(bank: pd.DataFrame, seed: int) -> Iterator[Cloud]:
    sentence, text, tag, depth = (bank[name].to_numpy() for name in ("sentence", "text", "tag", "depth"))
    kept = np.flatnonzero(bank["tag"].map(bank["tag"].value_counts()).to_numpy() >= FREQUENT)
    asked, control = {"part of speech": tag[kept]}, {"part of speech": _by_type(text[kept], tag[kept], seed)}
    points, needs = partial(_layer, "treebank", rows=kept), ("treebank",)
    yield Cloud("treebank", needs, points, sentence[kept], asked, control, None, (text[kept],))
    asked, control = {"tree depth": depth}, {"tree depth": _by_type(text, depth, seed)}
    yield Cloud("treebank", needs, partial(_layer, "treebank"), sentence, asked, control, None, (text,))


def _layer(name: str, arrays: Arrays, layer: int, rows: Ints | slice = slice(None)) -> Vectors:
    return arrays.layer(name, layer)[rows]


def _shifted(name: str, shifted: Labels, kept: Ints, arrays: Arrays, layer: int) -> Vectors:
    """Every sentence once: as it is, or with two words changed about."""
    points = arrays.layer(name, layer).copy()
    points[shifted] = arrays.layer(f"shifted_{name}", layer)
    return points[kept]


def _pairs(one: Ints, other: Ints, arrays: Arrays, layer: int) -> Vectors:
    points = arrays.layer("words", layer)
    return np.concatenate([points[one], points[other]], 1)


def _terciles(values: Labels) -> Ints:
    return np.searchsorted(np.quantile(values, [1 / 3, 2 / 3]), values)


def _together(labels: Labels, control: Labels) -> Ints:
    """Strata that deal a task's and its control's classes evenly over the folds."""
    return np.unique(np.stack([labels, control], 1).astype(int), axis=0, return_inverse=True)[1]


def _by_type(text: Labels, labels: Labels, seed: int) -> Labels:
    """A label for each word type, drawn from the labels of all words; Hewitt and Liang 2019."""
    types, of = np.unique(text, return_inverse=True)
    return np.asarray(np.random.default_rng((seed, 12)).choice(labels, len(types))[of])


def _places(
    run: Trajectory, asked: Sequence[Cloud], names: Collection[str] | None
) -> Iterator[tuple[Snapshot, Arrays, Cloud, int]]:
    for snapshot in run.snapshots:
        if names is None or snapshot.name in names:
            arrays = run.arrays(snapshot)
            for cloud in asked:
                if set(cloud.needs) <= arrays.names:
                    yield from ((snapshot, arrays, cloud, at) for at in range(arrays.shape(cloud.needs[0])[0]))


def _scores(points: npt.ArrayLike, cloud: Cloud, labels: Mapping[str, Labels], settings: Mapping[str, Any]) -> Scores:
    classes = {name: of for name, of in labels.items() if name.removeprefix(CONTROL) not in VALUES}
    fixed = {"seed": settings["seed"], "folds": settings["folds"]}
    return {
        **(linear_probes(points, classes, cloud.groups, strata=cloud.strata, **settings) if classes else {}),
        **{name: ridge_probe(points, of, cloud.groups, **fixed) for name, of in labels.items() if name not in classes},
    }


def _figures(cloud: Cloud, points: Vectors, coded: bool, settings: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    asked = cloud.tasks | {f"{CONTROL}{name}": of for name, of in cloud.controls.items()}
    probes = _scores(points, cloud, asked, settings)
    classes = {name: of for name, of in asked.items() if isinstance(probes[name], LinearProbe) and coded}
    codes = online_code_lengths(points, classes, cloud.groups, seed=settings["seed"]) if classes else {}
    figures = {}
    for task in cloud.tasks:
        probe, control = probes[task], f"{CONTROL}{task}"
        figures[task] = {"score": probe[0], "chance": getattr(probe, "chance", np.nan), "penalty": probe.penalty}
        if control in probes:
            against = probes[control][0]
            figures[task] |= {"control": against, "selectivity": selectivity(probe[0], against)}
        for column, name in (("compression", task), ("control_compression", control)):
            figures[task] |= {column: codes[name].compression} if name in codes else {}
    return figures


def _baseline(name: str, cloud: Cloud, draws: Sequence[npt.ArrayLike], settings: Mapping[str, Any]) -> Rows:
    """A row for each task: mean and sd over the draws of the points."""
    found = [_scores(points, cloud, cloud.tasks, settings) for points in draws]
    trained = round(len(cloud.groups) * (1 - 1 / settings["folds"]))
    for task, labels in cloud.tasks.items():
        yield _row(name, task, labels, [one[task][0] for one in found], found[0][task].d, trained)


def _trained_on_train(labels: Labels, judged: list[str], texts: list[str], known: Labels) -> Rows:
    tfidf = TfidfVectorizer(ngram_range=(1, 2), token_pattern=WORD)
    model = LogisticRegression(max_iter=1000).fit(tfidf.fit_transform(texts), known)
    right = model.predict(tfidf.transform(judged)) == labels
    names, counts = np.unique(known, return_counts=True)
    largest = names[counts.argmax()] == labels
    yield _row("majority class", "label", labels, [float(largest.mean())], 0, len(known))
    yield _row("TF-IDF, all of train", "label", labels, [float(right.mean())], len(tfidf.vocabulary_), len(known))


def _row(name: str, task: str, labels: Labels, scores: list[float], d: int, trained: int) -> dict[str, Any]:
    chance = np.nan if task in VALUES else float(np.unique(labels, return_counts=True)[1].max() / len(labels))
    sd = float(np.std(scores, ddof=1)) if len(scores) > 1 else np.nan
    who = {"baseline": name, "task": task, "metric": _metric(task)}
    return {
        **who,
        "score": float(np.mean(scores)),
        "sd": sd,
        "chance": chance,
        "n": len(labels),
        "d": d,
        "trained": trained,
    }


def _metric(task: str) -> str:
    return "r2" if task in VALUES else "accuracy"


def _joined(text: str | tuple[str, ...]) -> str:
    return text if isinstance(text, str) else " ".join(text)
