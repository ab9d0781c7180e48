"""Files of a new project: those of isoscope's own project, with one task and one small study.

It has no sources for DVC to watch. Its stages depend on the digests of isoscope's installed code in code.yaml.
"""

import json
import re
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from isoscope import __version__
from isoscope.base import code_closure
from isoscope.base.atomic_files import write_text
from isoscope.base.built_in import STAGES
from isoscope.base.errors import InputError
from isoscope.base.metric import Metric
from isoscope.base.paths import CODE, PARAMS, PROFILES, VARIANTS, overlay
from isoscope.platform.config.declared import declares, metrics_of
from isoscope.platform.config.explain import nearest
from isoscope.platform.config.profiles import as_dvc_writes, changed_by, committed, edited, laid_over
from isoscope.platform.config.tree import Tree, dump_yaml, merge, parse_yaml, read_yaml

FIRST = "first"
"""Name of a new project's study."""
QUESTION = "Which fusion of word and position embeddings"
"""Begin of the question of the first study, which the report begins with."""
EXAMPLES, FEWEST_EPOCHS, MOST_EPOCHS = 40_000, 4, 40
"""Length of a run of the first study, over all epochs: seconds on one core, whatever the size of the data."""
_BASE = "fusion"
"""Study of isoscope's own project that the first study is made of."""
AXES = ("fraction", "fusion", "objective", "penalty", "table", "weight")
"""Axes whose overlays suit any study; those of others continue the runs of isoscope's own studies."""
_COPIED = (".dvc/.gitignore", ".dvc/config", ".dvc/plots", ".dvcignore", ".gitattributes", ".gitignore")
_HEAD = """\
# yaml-language-server: $schema=params.schema.json
# All numbers of the project. Settings of one choice are in an overlay: variants/<axis>/<value>.yaml.
# To set a number for one command: isoscope train STUDY ARM --seed 0 -S training.epochs=2
# To read a page named docs/NAME.md: isoscope docs NAME
"""
CHECKPOINTS = {"minilm": "sentence-transformers/all-MiniLM-L6-v2", "bert": "google-bert/bert-base-uncased"}
"""Profile of a new project → its pre-trained encoder, both of English."""

VERSION = "isoscope"
"""Entry with isoscope's version, for people; no stage depends on it."""
_CODE_HEAD = """\
# Digests of isoscope's installed code, by stage. After an upgrade, `isoscope repro` renews them, and DVC runs the
# stages whose code has changed.
"""


def source() -> Path:
    """Return the folder of isoscope's own project: in an installed wheel, or the checkout of an editable install."""
    for folder in (code_closure.PACKAGE / "_project", code_closure.PACKAGE.parents[1]):
        if (folder / PARAMS).is_file() and (folder / "dvc.yaml").is_file():
            return folder
    raise InputError(f"{code_closure.PACKAGE}: lacks the files of a project; install isoscope again")


def project_files(name: str, task: Any, profile: str | None) -> dict[str, str | Path]:
    """Return the content of a new project's files, as text or as a file to copy, by path.

    `task`: an `isoscope.data.new_task.NewTask`. Raises `InputError` if there is no such profile for the task.
    """
    origin = source()
    known = {} if task.column is None else CHECKPOINTS
    if profile is not None and profile not in known:
        reason = nearest(profile, known) or "; profiles do not train language models: give what to predict (--label …)"
        raise InputError(f"--profile {profile}: no such profile for the task {task.name!r}{reason}")
    epochs, fraction = length(task.train_rows)
    asked = task.target.asked.format(text=task.text, column=task.column)
    values: Tree = {"name": name, "task": task, "question": f"{QUESTION} {asked} best?", "select": _metric(task).name}
    values |= {"data": dump_yaml({"data": {"source": task.source}})}
    values |= {"epochs": epochs, "fraction": fraction, "trial_epochs": max(FEWEST_EPOCHS, epochs // 2)}

    def written(template: str, **more: str) -> str:
        return _written(template, values | more)

    profiles = {
        f"{PROFILES}/{one}.yaml": written("profiles/profile.yaml", profile=one, checkpoint=checkpoint)
        for one, checkpoint in known.items()
    }
    params = _params(origin, parse_yaml(written(str(PARAMS)), str(PARAMS)), _metric(task))
    if profile is not None:
        params = laid_over(params, parse_yaml(profiles[f"{PROFILES}/{profile}.yaml"], profile))
    values["searches"] = parse_yaml(params, str(PARAMS))["search"] is not None
    files: dict[str, str | Path] = {
        str(PARAMS): params,
        "dvc.yaml": _stages((origin / "dvc.yaml").read_text("utf-8")),
        str(CODE): code_file(read_yaml(origin, Path("dvc.yaml"))["stages"]),
        "README.md": written("README.md"),
        str(overlay("task", task.name)): as_dvc_writes(written(str(overlay("task", "task")))),
        str(overlay("settings", "quick")): written(str(overlay("settings", "quick"))),
        **profiles,
    }
    for folder in ("plugins", "texts"):
        text = (origin / folder / "README.md").read_text("utf-8")
        files[f"{folder}/README.md"] = re.sub(r"\[(docs/[^\]]*)\]\([^)]*\)", r"\1", text)
    return dict(_copied(origin, files.values())) | files


def _written(template: str, values: Tree) -> str:
    """Return a file of the folder `template`, with these values."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("isoscope.platform.config", "template")
    options: dict[str, Any] = {"trim_blocks": True, "lstrip_blocks": True, "keep_trailing_newline": True}
    environment = Environment(loader=loader, undefined=StrictUndefined, **options)
    environment.policies["json.dumps_function"] = _quoted
    return environment.get_template(template).render(values)


def _quoted(value: Any, **options: Any) -> str:
    """Return a value as JSON that is YAML, too: no surrogates, nothing that YAML refuses or reads as a new line."""
    text = json.dumps(value, **options | {"ensure_ascii": False})
    return re.sub("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]", lambda found: f"\\u{ord(found[0]):04x}", text)


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


def _metric(task: Any) -> Metric:
    """Return what the first study selects by: the first score of the task's target; without a target, the loss."""
    kind = task.target.objective
    return next(one for one in metrics_of(kind).values() if (one.name == "loss") == (declares(kind, "TARGET") is None))


def _params(origin: Path, first: Tree, metric: Metric) -> str:
    """Return isoscope's own params.yaml with one task and its first study in place of those there; comments stay."""
    text = committed(origin) if (origin / ".git").exists() else (origin / PARAMS).read_text("utf-8")
    given = parse_yaml(text, str(PARAMS))
    others = {"studies": dict.fromkeys(given["studies"]), "comparisons": dict.fromkeys(given["comparisons"])}
    merge(others, first)
    text = laid_over(edited(text, partial(_search_by, metric)), others)
    return _HEAD + re.sub(rf"^  {_BASE}:", f"  {FIRST}:", text[text.index("\nplugins:") :], count=1, flags=re.M)


def length(train_rows: int) -> tuple[int, float]:
    """Return epochs, and the fraction of the train split, of the first study: together `EXAMPLES`, or fewer."""
    wanted = EXAMPLES / train_rows
    return round(min(max(wanted, FEWEST_EPOCHS), MOST_EPOCHS)), min(1.0, float(f"{wanted / FEWEST_EPOCHS:.2g}"))


def _stages(text: str) -> str:
    """Return dvc.yaml for the installed package, in its own layout: only people write it."""
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 1000
    yaml.indent(mapping=2, sequence=4, offset=2)
    return changed_by(yaml, text, _by_digest)


def _search_by(metric: Metric, tree: Any) -> None:
    """Let the search of a params.yaml ask for a metric; of a metric with a range, within the margin that is there."""
    search, name, ranged = tree["search"], f"validation/{metric.name}", None not in (metric.low, metric.high)
    scored, *others = search["objectives"]
    if name != scored:
        limit = {name: search["constraints"][scored] | {"better": metric.better}}
        kept = {one: search["objectives"][one] for one in others if ranged}
        search |= {"objectives": {name: metric.better, **kept}, "constraints": limit if ranged else {}}


def _by_digest(tree: Any) -> None:
    """Let the stages of a dvc.yaml depend on digests of isoscope's code instead of its sources."""
    for name, stage in tree["stages"].items():
        body = stage.get("do", stage)
        body["params"].append({str(CODE): [name]})
        for place, path in reversed([*enumerate(body["deps"])]):
            if str(path).startswith("src/"):
                del body["deps"][place]


def code_file(stages: Iterable[str]) -> str:
    """Return the text of code.yaml for the installed code."""
    return _CODE_HEAD + dump_yaml(
        {VERSION: __version__} | {stage: code_closure.stage_version(stage) for stage in stages}
    )


def outdated(folder: Path, only: str | None = None) -> tuple[str, ...]:
    """Return the stages of a project's code.yaml, or `only` one, whose code differs from the installed code.

    Empty without such a file: in a checkout DVC watches the sources. Raises `InputError` for an invalid file.
    """
    if not (folder / CODE).exists():
        return ()
    asked = [(stage, digest) for stage, digest in _digests(folder).items() if only in (None, stage)]
    return tuple(stage for stage, digest in asked if digest != code_closure.stage_version(stage))


def renew(folder: Path) -> tuple[str, ...]:
    """Write the digests of the installed code into a project's code.yaml; return the stages whose code has changed."""
    changed = outdated(folder)
    if changed:
        write_text(folder / CODE, code_file(_digests(folder)), "params")
    return changed


def check_code(folder: Path, only: str | None = None) -> None:
    """Raise `InputError` if code.yaml does not have the digests of the installed code."""
    if changed := outdated(folder, only):
        raise InputError(
            f"{CODE}: not of the installed isoscope {__version__}: {', '.join(changed)}; start DVC with: isoscope repro"
        )


def _digests(folder: Path) -> Tree:
    found = {stage: digest for stage, digest in read_yaml(folder, CODE).items() if stage != VERSION}
    for stage in found:
        if stage not in STAGES:
            raise InputError(
                f"{CODE}: {stage}: not a stage of isoscope {__version__}; replace {CODE} and dvc.yaml by those of a "
                "project of: isoscope new"
            )
    return found
