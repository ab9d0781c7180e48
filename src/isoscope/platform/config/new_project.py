"""Files of a new project: those of isoscope's own project, with one task and one small study."""

import re
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ruamel.yaml import YAML

from isoscope.base import code_closure
from isoscope.base.errors import InputError
from isoscope.base.paths import CODE, PARAMS, PROFILES, VARIANTS, overlay
from isoscope.platform.config.code_digests import code_file
from isoscope.platform.config.explain import nearest
from isoscope.platform.config.profiles import as_dvc_writes, changed_by, committed, edited, laid_over
from isoscope.platform.config.tree import Tree, dump_yaml, merge, parse_yaml, read_yaml

FIRST = "first"
"""Name of a new project's study."""
GENERATED = 2400
"""Examples of generated text in a new project without text of its own."""
EXAMPLES, FEWEST_EPOCHS, MOST_EPOCHS = 40_000, 4, 40
"""Length of a run of the first study, over all epochs: seconds on one core, whatever the size of the data."""
_BASE = "fusion"
"""Study of isoscope's own project that the first study is made of."""
# As in variants/settings/small_language.yaml: with BERT's 0.02 so narrow a model only reaches the unigram loss.
_LANGUAGE: Tree = {
    "search": {"arm": "additive-masked", "space": {"penalty": None, "penalty.weight": None}},
    "model": {"encoder": {"dropout": 0.0, "attention_dropout": 0.0, "init_std": 0.1, "initializer_range": 0.1}},
    "training": {"learning_rate": 3e-3, "select": "loss"},
}
QUICK = str(overlay("settings", "quick"))
AXES = ("fraction", "fusion", "objective", "penalty", "table", "weight")
"""Axes whose overlays suit any study; those of others continue the runs of isoscope's own studies."""
_COPIED = (".dvc/.gitignore", ".dvc/config", ".dvc/plots", ".dvcignore", ".gitattributes", ".gitignore")
_HEAD = """\
# yaml-language-server: $schema=params.schema.json
# All numbers of the project. Settings of one choice are in an overlay: variants/<axis>/<value>.yaml.
# To set a number for one command: isoscope train STUDY ARM --seed 0 -S training.epochs=2
# To read a page named docs/NAME.md: isoscope docs NAME
"""
_README = """\
# {name}

A project of isoscope. Its task `{task}` is {text}. The study `first`, in `params.yaml`, asks:
{question}

```sh
isoscope check                       # validate all files
isoscope repro                       # prepare, train, search, analyse: reports/index.html
isoscope train STUDY ARM --seed 0    # train one run
isoscope ui                          # all runs in MLflow, on 127.0.0.1
isoscope docs                        # list the pages of the documentation; isoscope docs tutorial
```

| file | content |
|---|---|
| `params.yaml` | all numbers; studies, and the search |
| `variants/<axis>/<value>.yaml` | overlays: one choice each; the data is described in `variants/task/{task}.yaml` |
{profiles}| `texts/`, `plugins/` | your text; your own fusions, penalties, measures … |
| `dvc.yaml`, `code.yaml` | the pipeline, and digests of its code. After an upgrade of isoscope: `isoscope repro` |
"""
_OF_PROFILES = """\
| `profiles/` | pre-trained encoders for your studies: `isoscope profile NAME`; to undo: `isoscope profile --reset` |
"""
_PROFILE = "minilm"
"""Profile of isoscope's own project whose settings the profiles of a new project have."""
CHECKPOINTS = {"minilm": "sentence-transformers/all-MiniLM-L6-v2", "bert": "google-bert/bert-base-uncased"}
"""Profile of a new project → its pre-trained encoder, both of English."""
_PROFILE_HEAD = """\
# {name}: all studies train the pre-trained encoder {checkpoint} (of English text)
# instead of a small encoder from random weights. Studies and tasks stay as they are. The search is left out: each of
# its trials would train this encoder. On a GPU: -S training.device=cuda.
# The checkpoint is looked up in ISOSCOPE_HUB first, then on the Hugging Face hub.
# Fusions that keep the pre-trained start are conv2d_identity and fft_residual: set them in studies.first.axes.fusion.
"""


class OwnTask(NamedTuple):
    """A task of a new project.

    `name`; `data`: the section of its overlay; `text`: what is read, in words; `classes`: what its classes are, in
    words (None: a text task); `train_rows`: rows of its train split; `trees`: whether it has a treebank of its own;
    `marked`: whether its script has vowel signs, which WordPiece in lower case would remove.
    """

    name: str
    data: Tree
    text: str
    classes: str | None
    train_rows: int
    trees: bool = False
    marked: bool = False

    @property
    def labelled(self) -> bool:
        """Whether it has classes."""
        return self.classes is not None


def source() -> Path:
    """Return the folder of isoscope's own project: in an installed wheel, or the checkout of an editable install."""
    for folder in (code_closure.PACKAGE / "_project", code_closure.PACKAGE.parents[1]):
        if (folder / PARAMS).is_file() and (folder / "dvc.yaml").is_file():
            return folder
    raise InputError(f"{code_closure.PACKAGE}: lacks the files of a project; install isoscope again")


def project_files(name: str, task: OwnTask, profile: str | None) -> dict[str, str | Path]:
    """Return the content of a new project's files, as text or as a file to copy, by path.

    Raises `InputError` if there is no such profile for the task.
    """
    origin = source()
    profiles = _profiles(origin) if task.labelled else {}
    if profile is not None and profile not in profiles:
        reason = nearest(profile, profiles) or "; profiles are for classifiers: give --label"
        raise InputError(f"--profile {profile}: no such profile for the task {task.name!r}{reason}")
    params = _params(origin, task)
    if profile is not None:
        params = laid_over(params, parse_yaml(profiles[profile], profile))
    stages = _stages((origin / "dvc.yaml").read_text("utf-8"))
    files: dict[str, str | Path] = {
        str(PARAMS): params,
        "dvc.yaml": stages,
        str(CODE): code_file(read_yaml(origin, Path("dvc.yaml"))["stages"]),
        "README.md": _README.format(
            name=name, task=task.name, text=task.text, question=_question(task), profiles=_OF_PROFILES * bool(profiles)
        ),
        str(overlay("task", task.name)): as_dvc_writes(
            f"# The text of this project.\n{dump_yaml({'data': task.data})}"
        ),
    }
    files[QUICK] = _quick(origin, task)
    files |= {f"{PROFILES}/{one}.yaml": text for one, text in profiles.items()}
    for folder in ("plugins", "texts"):
        text = (origin / folder / "README.md").read_text("utf-8")
        files[f"{folder}/README.md"] = re.sub(r"\[(docs/[^\]]*)\]\([^)]*\)", r"\1", text)
    return dict(_copied(origin, files.values())) | files


def _copied(origin: Path, written: Iterable[str | Path]) -> Iterable[tuple[str, Path]]:
    """Yield the files that a new project has unchanged; of the settings only those that its other files name."""
    named = {name for text in written for name in _settings(str(text))}
    folders = [origin / VARIANTS / axis for axis in AXES]
    found = [file for folder in folders for file in folder.glob("*.yaml")]
    found += [origin / overlay("settings", name) for name in named]
    for name in _COPIED:
        path = origin / name
        found += [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]
    for file in sorted(found):
        yield file.relative_to(origin).as_posix(), file


def _settings(text: str) -> Iterator[str]:
    """Yield the names of settings in a params.yaml or profile: in lists, and of files in comments."""
    yield from re.findall(rf"{VARIANTS}/settings/(\w+)\.yaml", text)
    for names in re.findall(r"^ +settings: \[([^\]]*)\]", text, flags=re.MULTILINE):
        yield from re.findall(r"\w+", names)
    for names in re.findall(r"^ +settings:(?: +#.*)?\n((?: *- \w+\n)+)", text, flags=re.MULTILINE):
        yield from re.findall(r"\w+", names)


def _params(origin: Path, task: OwnTask) -> str:
    """Return isoscope's own params.yaml with one task and its first study in place of those there; comments stay."""
    text = committed(origin) if (origin / ".git").exists() else (origin / PARAMS).read_text("utf-8")
    given = parse_yaml(text, str(PARAMS))
    epochs, fraction = length(task.train_rows)
    first: Tree = {
        "tasks": [task.name],
        "studies": dict.fromkeys(given["studies"]) | {_BASE: _study(task)},
        "comparisons": dict.fromkeys(given["comparisons"]),
        "search": {"name": FIRST, "study": FIRST, "settings": ["quick"], "budget": {"trials": 4}},
        "training": {"epochs": epochs, "fraction": fraction, "snapshots": {"epochs": False}},
        "extraction": {"share": 1.0, "sentences": 500} | ({} if task.trees else {"treebank": None}),
    }
    if task.marked:
        first["data"] = {"tokenizer": {"lowercase": False}}
    if not task.labelled:
        merge(first, _LANGUAGE)
        text = edited(text, _score_by_loss)
    text = laid_over(text, first)
    return _HEAD + re.sub(rf"^  {_BASE}:", f"  {FIRST}:", text[text.index("\nplugins:") :], count=1, flags=re.M)


def length(train_rows: int) -> tuple[int, float]:
    """Return epochs, and the fraction of the train split, of the first study: together `EXAMPLES`, or fewer."""
    wanted = EXAMPLES / train_rows
    return round(min(max(wanted, FEWEST_EPOCHS), MOST_EPOCHS)), min(1.0, float(f"{wanted / FEWEST_EPOCHS:.2g}"))


def _quick(origin: Path, task: OwnTask) -> str:
    """Return the overlay of the search's trials: half the epochs of the first study, but at least `FEWEST_EPOCHS`."""
    of_study, _ = length(task.train_rows)
    epochs = max(FEWEST_EPOCHS, of_study // 2)
    tree = read_yaml(origin, Path(QUICK))
    merge(tree, {"training": {"epochs": epochs}})
    return _commented(f"Trials of the search: {epochs} epochs (the study: {of_study}), no snapshots.", tree)


def _commented(comment: str, tree: Tree) -> str:
    """Return the text of an overlay with a comment in its first line."""
    return as_dvc_writes(f"# {comment}\n{dump_yaml(tree)}")


def _stages(text: str) -> str:
    """Return dvc.yaml for the installed package, in its own layout: only people write it."""
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 1000
    yaml.indent(mapping=2, sequence=4, offset=2)
    return changed_by(yaml, text, _by_digest)


def _score_by_loss(tree: Any) -> None:
    tree["search"] |= {"objectives": {"validation/loss": "minimise"}, "constraints": {}}


def _question(task: OwnTask) -> str:
    """Return the question of the first study, which the report begins with."""
    if task.classes is None:
        return f"Which fusion of word and position embeddings predicts masked words of {task.text} best?"
    return f"Which fusion of word and position embeddings classifies {task.text} by {task.classes} best?"


def _study(task: OwnTask) -> Tree:
    axes, kind = {"fusion": ["additive", "conv2d"]}, "fusion"
    if not task.labelled:
        axes, kind = axes | {"objective": ["masked"]}, "isotropy"
    return {
        "about": _question(task),
        "kind": kind,
        "task": task.name,
        "settings": [],
        "axes": axes,
        "seeds": [0, 1, 2],
    }


def _profiles(origin: Path) -> dict[str, str]:
    """Return profiles by name: settings of a pre-trained encoder, for whatever studies and tasks a project has."""
    text = (origin / PROFILES / f"{_PROFILE}.yaml").read_text("utf-8")
    text = text[text.index("\ntasks:") + 1 :]  # without its comment, about isoscope's own study
    return {
        name: _PROFILE_HEAD.format(name=name, checkpoint=checkpoint)
        + edited(text, partial(_settings_alone, checkpoint=checkpoint))
        for name, checkpoint in CHECKPOINTS.items()
    }


def _settings_alone(tree: Any, *, checkpoint: str) -> None:
    """Keep what a profile says about model, training and search, and set its checkpoint."""
    for section in [name for name in tree if name not in ("model", "training", "search")]:
        del tree[section]
    tree["model"]["encoder"]["checkpoint"] = checkpoint


def _by_digest(tree: Any) -> None:
    """Let the stages of a dvc.yaml depend on digests of isoscope's code instead of its sources."""
    for name, stage in tree["stages"].items():
        body = stage.get("do", stage)
        body["params"].append({str(CODE): [name]})
        for place, path in reversed([*enumerate(body["deps"])]):
            if str(path).startswith("src/"):
                del body["deps"][place]
