"""Probe a run linearly at each layer over training, with control tasks, baselines and a learning curve.

Folds hold out whole sentences and are the same for all snapshots, layers and baselines.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from isoscope.base.errors import InputError
from isoscope.data.arrays import Vectors
from isoscope.data.words import bag, has_words
from isoscope.geometry import probes
from isoscope.geometry.moments import Floats, distinct
from isoscope.states.probe_tasks import TASKS, Cloud, Labels, clouds
from isoscope.states.trajectory import RANDOM, Trajectory

SCORES = ("score", "chance", "permuted", "control", "selectivity", "compression", "control_compression", "penalty")
CONTROL = "control of "
DRAWS = 5  # random word vectors of a baseline
PERMUTATIONS = 3  # label permutations per task; their mean score is chance on these folds
KINDS = ("sentences", "words", "treebank")  # what vectors are of: parts of a table that can be made apart
FEATURES = 5000  # number of most frequent TF-IDF terms in the probe's own folds
Rows = Iterator[dict[str, Any]]


def probing_table(
    run: Trajectory,
    *,
    vectors: Sequence[str] = ("first", "mean"),
    seed: int,
    folds: int = 5,
    everywhere: Collection[str] = ("label", "bigram shift"),
    snapshots: Collection[str] | None = None,
    kinds: Collection[str] = KINDS,
) -> pd.DataFrame:
    """Build a row for each snapshot, layer, kind of vectors and task: held-out score, chance, control, code length.

    - `score`: accuracy or R².
    - `chance`: the largest class's share. `permuted`: the mean score on labels permuted within folds; it is below
      chance if folds are not stratified, as folds of words cannot be.
    - `control`: the score with permuted labels (sentences), or with a random label per word type (words; memorisable,
      since training and test share types).
    - `compression`: uniform over online code length of the labels.
    - `distinct`: number of different vectors. A cell with one vector is degenerate and has no score. A cell with few
      vectors encodes only what distinguishes these few.
    - `snapshots`: names, None for all. The first, the best and the twin have code lengths, permuted labels and all
      tasks; the others only the tasks `everywhere`.
    - `kinds`: of `KINDS`. Fewer than all may have no rows.

    Raises `InputError` if nothing was measured of all kinds.
    """
    closely = {run.trained[0].name, run.best.name, RANDOM}
    settings = {"seed": seed, "folds": folds}
    some, every = (clouds(run, vectors, names, seed=seed) for names in (everywhere, TASKS))
    rows: list[dict[str, Any]] = []
    for snapshot in (one for one in run.snapshots if snapshots is None or one.name in snapshots):
        arrays, close = run.arrays(snapshot), snapshot.name in closely
        for cloud in (one for one in (every if close else some) if _kind(one) in kinds):
            for layer in range(arrays.shape(cloud.needs[0])[0]) if set(cloud.needs) <= arrays.names else ():
                found = _rows(cloud, cloud.points(arrays, layer), close, settings)
                rows += (snapshot.dated | {"layer": layer} | row for row in found)
    if not rows and len(kinds) < len(KINDS):
        return pd.DataFrame()
    if not rows:
        raise InputError("probes: nothing was measured; check that the run has these vectors and tasks")
    return pd.DataFrame(rows).astype({"step": "Int64", "epoch": "Int64"})


def _kind(cloud: Cloud) -> str:
    return cloud.vectors if cloud.vectors in KINDS else KINDS[0]


def baselines_table(
    run: Trajectory,
    train_texts: Sequence[str] | None = None,
    train_labels: npt.ArrayLike | None = None,
    *,
    seed: int,
    folds: int = 5,
) -> pd.DataFrame:
    """Score baselines without an encoder, on the same points and folds.

    Columns baseline, task, metric, score, sd, chance, n, d, trained (labels seen).

    - The majority class of train.
    - TF-IDF of uni- and bigrams of `train_texts`, with logistic regression in the probe's folds; and the same trained
      on all of `train_labels`, C = 1.
    - Bags of word embeddings before training and at the chosen epoch.
    - Random word vectors bound to random position vectors and summed: mean and sd over `DRAWS`.
    - For tasks of words, the word types alone.

    The texts of a pair are joined by a space. Without train, TF-IDF counts terms in the probe's own texts (without
    their labels), and baselines trained on train are left out.
    """
    settings = {"seed": seed, "folds": folds}
    unscaled, read = settings | {"standardise": False}, run.probe.filter(like="text")
    judged = [" ".join(text) for text in read.itertuples(index=False, name=None)]
    rows: list[dict[str, Any]] = []
    for cloud in clouds(run, ("bag",), set(TASKS) - {"bigram shift"}, seed=seed):
        if cloud.words:
            types = np.concatenate([(part[:, None] == np.unique(part)).astype(float) for part in cloud.words], 1)
            rows += _baseline("word types", cloud, [types], unscaled)
            continue
        if "label" in cloud.tasks and train_texts is not None:
            rows += _trained_on_train(cloud, judged, train_texts, np.asarray(train_labels))
        known = judged if train_texts is None else train_texts
        if read.shape[1] and has_words(known):
            tfidf = _bigrams(known, max_features=FEATURES).fit(known)
            rows += _baseline("TF-IDF, same folds", cloud, [tfidf.transform(judged).toarray()], unscaled)
        ends = {"first snapshot": run.trained[0], "chosen epoch": run.best}
        for name, snapshot in (ends if len(run.trained) > 1 else {"checkpoint": run.best}).items():
            if "bag" in (arrays := run.arrays(snapshot)).names:
                rows += _baseline(f"bag of embeddings, {name}", cloud, [arrays.whole("bag")], settings)
        if "ids" in run.probe:
            ids, width = run.probe["ids"].tolist(), run.arrays(run.best).shape("mean")[-1]
            bound = [hrr_bags(ids, width=width, seed=seed + draw) for draw in range(DRAWS)]
            rows += _baseline("words bound to positions", cloud, bound, settings)
    return pd.DataFrame(rows)


def hrr_bags(sentences: Sequence[Sequence[int]], *, width: int, seed: int) -> Floats:
    """Return sums over a sentence of word ⊛ position (circular convolution) `[n, width]`, both from N(0, 1/width).

    A binding has expected squared length 1, so a sentence of T tokens has T. Source: Plate 1995.
    """
    random, lengths = np.random.default_rng((seed, width)), [len(one) for one in sentences]
    words, of = np.unique(np.concatenate(sentences), return_inverse=True)
    tables = (random.standard_normal((size, width)) / np.sqrt(width) for size in (len(words), max(lengths)))
    word, position = (np.fft.rfft(table) for table in tables)
    parts = np.split(of, np.cumsum(lengths)[:-1])
    sums = np.stack([(word[part] * position[: len(part)]).sum(0) for part in parts])
    return np.asarray(np.fft.irfft(sums, n=width))


def _scores(
    points: npt.ArrayLike, cloud: Cloud, labels: Mapping[str, Labels], settings: Mapping[str, Any]
) -> Mapping[str, probes.LinearProbe | probes.RidgeProbe]:
    if cloud.metric == "accuracy":
        return probes.linear_probes(points, labels, cloud.groups, strata=cloud.strata, **settings)
    return probes.ridge_probes(points, labels, cloud.groups, **{name: settings[name] for name in ("seed", "folds")})


def _rows(cloud: Cloud, points: Vectors, close: bool, settings: Mapping[str, Any]) -> Rows:
    different, trained = distinct(points), round(len(points) * (1 - 1 / settings["folds"]))
    size = {"trained": trained, "n": len(points), "d": points.shape[1], "distinct": different}
    asked = cloud.tasks | {f"{CONTROL}{name}": of for name, of in cloud.controls.items()}
    coded = close and different > 1 and cloud.metric == "accuracy"
    without = _permuted(cloud, settings) if coded else {}
    found = _scores(points, cloud, asked | without, settings) if different > 1 else {}
    codes = probes.online_code_lengths(points, asked, cloud.groups, seed=settings["seed"]) if coded else {}
    for task in cloud.tasks:
        metrics, control = dict.fromkeys(SCORES, np.nan), f"{CONTROL}{task}"
        if task in found:
            score, against = found[task][0], found[control][0] if control in found else np.nan
            metrics |= {"score": score, "chance": getattr(found[task], "chance", np.nan)}
            metrics |= {"control": against, "selectivity": score - against, "penalty": found[task].penalty}
        if coded:
            metrics |= {"permuted": float(np.mean([found[f"{draw} {task}"][0] for draw in range(PERMUTATIONS)]))}
        for column, name in (("compression", task), ("control_compression", control)):
            metrics |= {column: codes[name].compression} if name in codes else {}
        what = {"vectors": cloud.vectors, "task": task, "metric": cloud.metric}
        yield what | metrics | size | {"degenerate": different == 1}


def _permuted(cloud: Cloud, settings: Mapping[str, Any]) -> dict[str, Labels]:
    """Return each task's permuted labels as tasks of their own, `{draw} {name}`."""
    fixed = {name: settings[name] for name in ("seed", "folds")}
    return {
        f"{draw} {name}": of
        for name, values in cloud.tasks.items()
        for draw, of in enumerate(
            probes.permuted(values, cloud.groups, draws=PERMUTATIONS, strata=cloud.strata, **fixed)
        )
    }


def _baseline(name: str, cloud: Cloud, draws: Sequence[npt.ArrayLike], settings: Mapping[str, Any]) -> Rows:
    """Return a row for each task: mean and sd over the draws of the points."""
    found = [_scores(points, cloud, cloud.tasks, settings) for points in draws]
    trained = round(len(cloud.groups) * (1 - 1 / settings["folds"]))
    for task in cloud.tasks:
        yield _row(name, task, cloud, [one[task][0] for one in found], found[0][task].d, trained)


def _trained_on_train(cloud: Cloud, judged: list[str], texts: Sequence[str], known: Labels) -> Rows:
    names, counts = np.unique(known, return_counts=True)
    found = {"majority class": (names[counts.argmax()], 0)}
    if has_words(texts):
        tfidf = _bigrams(texts)
        model = LogisticRegression(max_iter=1000).fit(tfidf.fit_transform(texts), known)
        found = {"TF-IDF, all of train": (model.predict(tfidf.transform(judged)), len(tfidf.vocabulary_))} | found
    for name, (told, d) in found.items():
        yield _row(name, "label", cloud, [float((told == cloud.tasks["label"]).mean())], d, len(known))


def _bigrams(texts: Sequence[str], **options: Any) -> TfidfVectorizer:
    return TfidfVectorizer(ngram_range=(1, 2), tokenizer=bag(texts).split, token_pattern=None, **options)


def _row(name: str, task: str, cloud: Cloud, scores: list[float], d: int, trained: int) -> dict[str, Any]:
    counts = np.unique(cloud.tasks[task], return_counts=True)[1]
    score = {"score": float(np.mean(scores)), "sd": float(np.std(scores, ddof=1)) if len(scores) > 1 else np.nan}
    chance = float(counts.max() / counts.sum()) if cloud.metric == "accuracy" else np.nan
    size = {"chance": chance, "n": int(counts.sum()), "d": d, "trained": trained}
    return {"baseline": name, "task": task, "metric": cloud.metric, **score, **size}


def learning_table(run: Trajectory, *, vectors: Sequence[str], seed: int, folds: int = 5) -> pd.DataFrame:
    """Return the label probe's score at the last layer of the chosen snapshot, by share of the training sentences.

    Trained on a quarter, half and all training sentences; the held-out sentences are the same. This shows whether a
    score needs more sentences, or other vectors.
    """
    arrays, labels = run.arrays(run.best), run.probe["label"].to_numpy()
    rows = []
    for name in (one for one in vectors if one in arrays.names and len(np.unique(labels)) > 1):
        layer = arrays.shape(name)[0] - 1
        try:
            found = probes.learning_curve(arrays.last(name), labels, run.groups, seed=seed, folds=folds, strata=labels)
        except InputError:  # a quarter of few groups is too small: no curve, and the probe of all is in another table
            continue
        for share, probe in found.items():
            size = {"trained": round(share * probe.n * (1 - 1 / folds)), "n": probe.n, "d": probe.d}
            rows.append({"vectors": name, "layer": layer, "score": probe.accuracy, "chance": probe.chance, **size})
    return pd.DataFrame(rows)
