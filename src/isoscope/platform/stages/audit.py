"""Audit a project: is every number on the page backed by a run, and is every file what its run wrote?

What was made from runs is made again, in an empty folder with links to the project's data and models, and compared.
"""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date
from functools import partial
from hashlib import sha256
from itertools import chain, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tqdm import tqdm

from isoscope.base import built_in, paths
from isoscope.base.atomic_files import changed
from isoscope.base.code_closure import PACKAGE
from isoscope.base.errors import InputError, RunError, first_line
from isoscope.base.symlinks import dvc_cache
from isoscope.platform.config.tree import read_yaml
from isoscope.platform.mirror.errors import RefusedError, UnreachableError, trouble
from isoscope.platform.mirror.fields import LOCAL, address, told, write_notes
from isoscope.platform.results.version_differences import differing_cells, differing_places
from isoscope.platform.runs import stored
from isoscope.platform.runs.follower import FOLLOWED
from isoscope.platform.runs.lines import RunRecord
from isoscope.platform.runs.output_files import CONFIG, named_digest
from isoscope.platform.runs.prepared import check_prepared, content_md5
from isoscope.platform.runs.provenance import dvc_md5, file_md5s, file_sha256
from isoscope.platform.runs.record import read
from isoscope.platform.stages.analyse import analyse
from isoscope.platform.stages.report import AUDIT, report
from isoscope.platform.stages.study_cells import Setup, training_job

DAMAGE, MISMATCH, TRACKING, NOTE = ORDER = ("damage", "mismatch", "MLflow", "note")
Finding = tuple[str, str]  # kind, of `ORDER` (the most serious first), and a line: place, what is wrong, what to do
MIRROR, REPRO, REPORT = "run: isoscope mirror", "run: isoscope repro", "run: isoscope repro report"
MOST, SHOWN = 10, 3  # findings listed of a file; files named
_CODE = re.compile(rb"^code: [0-9a-f]{64}$", re.MULTILINE)
_ACCEPTED = re.compile(r'<span class="small">golden trace equal under code [^<]*</span>')
SPEED = "speed/"
"""Metrics of a run's time: no output vouches for them, and MLflow keeps those of its first training."""
_HASH = re.compile(r"[0-9a-f]{32}(\.dir)?")
_MADE = re.compile(r"\S*/isoscope-audit-\w+/")


def audit(setup: Setup, *, deep: bool = False) -> list[Finding]:
    """Return what is damaged, differs or is unknown in a project, the most serious first; note the result.

    `deep`: also repeat the first updates of each arm, and compare with the golden traces.
    """
    project, known, root = setup.project, setup.configuration, setup.configuration.root
    outputs = [folder for pattern in stored.PUBLISHED for folder in sorted(project.folder.glob(pattern))]
    digests = {path.stem for path in (*project.records.glob("*.jsonl"), *project.runs.glob("*"))}
    cells = {(name, arm): study.seeds for name, study in root.studies.items() for arm in known.arms(name)}
    held = (project.folder / paths.SUMS).is_file()  # an opened bundle, which may lack weights, states and data
    of_files = [
        *((DAMAGE, one.relative_to(project.folder), partial(_output, project, one)) for one in outputs),
        (DAMAGE, stored.LOCK, partial(_lock, project)),
    ]
    os.environ[FOLLOWED] = "1"  # what is made again is not sent to MLflow
    with TemporaryDirectory(prefix="isoscope-audit-") as folder:
        Path(folder, "reports").mkdir()
        for name in ("data", "models", paths.SEARCH, paths.CONFIRMED):
            Path(folder, name).symlink_to(project.folder / name)
        steps: list[tuple[str, Path, Callable[[], Iterable[Finding] | None]]] = [
            *([(DAMAGE, paths.SUMS, partial(_held, project.folder))] if held else of_files),
            *((DAMAGE, Path(".isoscope/records", one), partial(_record, project, one)) for one in sorted(digests)),
            *(
                (NOTE if held else DAMAGE, paths.processed(task), partial(check_prepared, project, known, task))
                for task in root.tasks
            ),
            *(
                (NOTE if held else MISMATCH, paths.analysed(name), partial(_again, setup, name, Path(folder)))
                for name, one in (*root.studies.items(), *root.comparisons.items())
                if getattr(one, "seeds", True)
            ),
            (NOTE if held else MISMATCH, paths.INDEX, partial(_page, setup, Path(folder))),
            # Its scripts are of isoscope: those of another folder are not run.
            *[(MISMATCH, Path("docs/results"), partial(_results, project.folder))]
            * (PACKAGE.parents[1] == project.folder),
            (NOTE, Path(address(None)), partial(_tracked, project)),
            (NOTE, paths.PARAMS, partial(_unknown, setup, cells, outputs)),
            *(
                (MISMATCH, paths.trained(*one, seeds[0]), partial(_repeated, setup, (*one, seeds[0])))
                for one, seeds in cells.items()
                if seeds and deep
            ),
        ]
        lines = chain.from_iterable(_tried(*step) for step in tqdm(steps, "audit", disable=None))
        found = sorted(dict.fromkeys(lines), key=lambda one: ORDER.index(one[0]))
    if (parts := project.folder / paths.PARTS).is_dir():
        said = ", ".join(f"{kind} {sum(one[0] == kind for one in found)}" for kind in ORDER)
        write_notes(project.state / AUDIT, {dvc_md5(parts): {"line": f"Audited on {date.today()}. Findings: {said}."}})
    return found


def _tried(kind: str, where: Path, do: Callable[[], Iterable[Finding] | None]) -> Iterator[Finding]:
    try:
        yield from do() or ()
    except (
        *(InputError, RunError, RefusedError, UnreachableError, OSError, RuntimeError),
        *(ArithmeticError, LookupError, TypeError, ValueError),
    ) as error:
        yield kind, f"{where}: {_MADE.sub('', first_line(error)).removeprefix(f'{where}: ')}"


# Published and stored outputs, their inputs and records


def _output(project: paths.Project, folder: Path) -> Iterator[Finding]:
    where = folder.relative_to(project.folder).as_posix()
    stored.check_published(project, folder)
    config = read_yaml(folder, Path(CONFIG))
    for name, known in (config.get("inputs") or {}).items():
        place = project.folder / name
        if place.exists() and known not in (named_digest(place / CONFIG), dvc_md5(place), content_md5(place)):
            yield MISMATCH, f"{where}: was made from another {name} than is here; {REPRO}"
    end = stored.finished(project, str(config["digest"]))
    if end and end.output == where and end.output_md5 != dvc_md5(folder):
        yield DAMAGE, f"{where}: {CONFIG}, or a file that the run did not write, has changed; {REPRO}"


def _held(folder: Path) -> Iterator[Finding]:
    """Compare the files of an opened bundle with its list of hashes; later commands add lines to records."""
    sums = dict(line.split("  ", 1)[::-1] for line in (folder / paths.SUMS).read_text("utf-8").splitlines())
    same = {
        name: known
        for name, known in sums.items()
        if not (name.startswith(".isoscope/records/") and _begins(folder / name, known))
    }
    if wrong := changed(folder, same, file_sha256):
        yield DAMAGE, f"{wrong}; open the bundle again"
    yield NOTE, f"{paths.SUMS}: an opened bundle: what it lacks cannot be made again here"


def _begins(file: Path, known: str) -> bool:
    """Return whether the file's first lines have this sha256."""
    found = sha256()
    for line in file.read_bytes().splitlines(keepends=True) if file.is_file() else ():
        found.update(line)
        if found.hexdigest() == known:
            return True
    return False


def _record(project: paths.Project, digest: str) -> Iterator[Finding]:
    file, place = project.records / f"{digest}.jsonl", f".isoscope/records/{digest}.jsonl"
    if (project.runs / digest / "output").is_dir() and (wrong := stored.output_fault(project, digest)):
        yield DAMAGE, f".isoscope/runs/{digest}/output: {wrong}; run the command of the run again"
    record = read(file) if file.is_file() else RunRecord()
    begun = (project.runs / digest / stored.RESTORED).is_file() or not stored.files_of(project, digest)
    if record.run is None and not record.damaged and begun:  # restored, or looked for and never begun
        return
    if record.run is None or record.run.digest != digest or record.damaged > record.mended:
        yield DAMAGE, f"{place}: damaged or missing lines; {MIRROR}"
    known = {(one.name, one.step): str(one.value) for one in record.metrics}
    for one in stored.output_points(project, digest) or () if stored.finished(project, digest) else ():
        if known.get((one["name"], one["step"])) != str(float(one["value"])):
            yield DAMAGE, f"{place}: {one['name']} at step {one['step']} is not that of metrics.jsonl; {MIRROR}"


def _lock(project: paths.Project) -> Iterator[Finding]:
    asked = subprocess.run(["git", "ls-files", stored.LOCK], cwd=project.folder, capture_output=True, check=False)
    if not asked.stdout and not (project.folder / stored.LOCK).exists():
        return
    stages, cache = read_yaml(project.folder, stored.LOCK, most=None)["stages"], dvc_cache(project)
    outs = {one["path"]: one["md5"] for of in stages.values() for one in of.get("outs", ()) if "md5" in one}
    every = [one for of in stages.values() for part in ("deps", "outs") for one in of.get(part, ())]
    for one in (one for one in every if not _HASH.fullmatch(str(one.get("md5"))) and one.get("hash") == "md5"):
        yield DAMAGE, f"{stored.LOCK}: {one.get('path')} has no hash; run: git checkout {stored.LOCK}"
    for name, one in ((name, one) for name, of in stages.items() for one in of.get("deps", ())):
        if outs.get(one["path"], one.get("md5")) != one.get("md5"):
            yield MISMATCH, f"{stored.LOCK}: {one['path']} is not what {name} read; run: isoscope repro {name}"
    for path, md5, place in ((path, md5, project.folder / path) for path, md5 in outs.items()):
        was, now = stored.listing(cache, md5), file_md5s(place) if place.is_dir() else {}
        by_content = path == str(paths.INDEX) or (path.startswith(str(paths.PARTS)) and now and not was)  # below
        changed = sorted(one for one in was | now if was.get(one) != now.get(one)) if was and now else [""]
        for file in [] if by_content or (place.exists() and dvc_md5(place) == md5) else changed:
            kind = NOTE if was and file not in {*was, ""} else MISMATCH if path.startswith("reports") else DAMAGE
            wrong = "no run wrote it; remove it" if kind == NOTE else f"is missing, or not what {stored.LOCK} names"
            yield kind, f"{path}/{file}".rstrip("/") + f": {wrong}; or run: dvc checkout {path}"


# Tables, figures and the page, made again


def _again(setup: Setup, name: str, folder: Path) -> Iterator[Finding]:
    root, where, before = setup.configuration.root, paths.analysed(name), setup.project.folder / paths.analysed(name)
    asked = root.studies.get(name) or root.comparisons[name]
    arms = {study: setup.configuration.arms(study) for study in getattr(asked, "compared", (name,))}
    sections, place = (root.analysis, root.reproduction, asked, root.studies), paths.Project(folder, folder)
    try:
        made = analyse(*sections, name=name, arms=arms, project=place)
    except InputError:
        if (parts := before.parent).is_dir() and not (folder / where).exists():  # the page is made of what is there
            (folder / where).parent.mkdir(parents=True, exist_ok=True)
            (folder / where).symlink_to(parts / name)
        raise
    found: dict[Path, list[Finding]] = {}
    for file in sorted({path.relative_to(one) for one in (before, made) for path in one.rglob("[!.]*.*")}):
        if (made / file).exists():
            compare = partial(_compared, where / file, before / file, made / file)
            found[file] = [*_tried(MISMATCH, where / file, compare)]
        else:
            yield NOTE, f"{where / file}: no run wrote it; remove it"
    configs = [one / CONFIG for one in (before, made)]
    codes = [_CODE.findall(file.read_bytes()) if file.is_file() else [] for file in configs]
    if codes[0] and codes[0] != codes[1]:
        named = [file.name for file, lines in found.items() if lines and file.name != CONFIG]
        gives = f"other results ({len(named)} files: {', '.join(named[:SHOWN])} …); {REPRO}" if named else "the same"
        yield MISMATCH if named else NOTE, f"{where}: was made by other code; the code that is here gives {gives}"
    else:
        yield from chain.from_iterable(found.values())
    (made / CONFIG).write_bytes((before / CONFIG).read_bytes())  # the page shows it


def _compared(place: Path, old: Path, new: Path) -> Iterator[Finding]:
    cells = {} if old.read_bytes() == new.read_bytes() else differing_cells(old, new)
    for cell, (one, other) in islice(cells.items(), 1 if old.suffix == ".svg" else MOST):
        yield MISMATCH, f"{place}: {cell}: {one!r:.80}, the runs give {other!r:.80} ({len(cells)} differ); {REPRO}"


def _page(setup: Setup, folder: Path) -> Iterator[Finding]:
    project, root, where = setup.project, setup.configuration.root, paths.INDEX
    cells = {name: setup.configuration.cells(name) for name, study in root.studies.items() if study.seeds}
    made = report(
        *(root.report, root.studies, root.comparisons, root.tasks),
        project=paths.Project(folder, project.state),
        cells=cells,
    ).page
    # Acceptance changes no number and no dependency of the stage, so the page shows it when it is next made.
    html, again = (_ACCEPTED.sub("", file.read_text("utf-8")) for file in (project.folder / where, made))
    unknown = any(
        not (project.records / f"{named_digest(run)}.jsonl").is_file()
        for run in project.folder.glob(f"models/*/*/seed-*/{CONFIG}")
    )
    for place, one, other in islice(differing_places(html, again, ("mlflow", "audit", *["record"] * unknown)), MOST):
        yield MISMATCH, f"{where}: {place}: {one!r}, the runs give {other!r}; {REPORT}"
    large = [page.parent / "data" for page in (project.folder / where, made)]
    for file in sorted({one.name for folder in large for one in folder.glob("[!.]*")}):
        old, new = (folder / file for folder in large)
        table = old.relative_to(project.folder)
        if old.exists() and new.exists():
            yield from _compared(table, old, new)
        else:
            yield MISMATCH, f"{table}: {'is missing' if new.exists() else 'is of no figure of the page'}; {REPORT}"


# Pages of results, MLflow, unknown folders, golden traces


def _results(folder: Path) -> Iterator[Finding]:
    script = "docs/results/rebuild.py"
    if (folder / script).is_file():
        done = subprocess.run([sys.executable, script, "--check"], cwd=folder, text=True, capture_output=True)
        if done.returncode:
            raise RunError(done.stderr.strip().rpartition("\n")[2])
        for file in done.stdout.splitlines():
            yield MISMATCH, f"{file}: is not of its data; run: python {script}"


def _tracked(project: paths.Project) -> Iterator[Finding]:
    from isoscope.platform.mirror.mlflow import connect

    if address(None) == LOCAL and not (project.state / LOCAL).is_file():
        raise InputError(f"{LOCAL}: is not here, so nothing was compared with MLflow; {MIRROR}")
    ended = {path.stem for path in project.records.glob("*.jsonl") if stored.finished(project, path.stem)}
    with trouble():
        there = connect(None, project.state).told(ended)
    for digest, record in ((digest, read(project.records / f"{digest}.jsonl")) for digest in sorted(ended)):
        for name, mine in told(record.status, record.metrics).items():
            its = there.get(digest, {}).get(name, "missing")
            if mine != its and (its == "missing" or not name.startswith(SPEED)):  # of a run that trained again
                yield TRACKING, f"MLflow, run {digest[:12]}: {name} is {its}, the record has {mine}; {MIRROR}"


def _unknown(setup: Setup, cells: Mapping[Any, Any], outputs: list[Path]) -> Iterator[Finding]:
    folder, root = setup.project.folder, setup.configuration.root
    places = chain.from_iterable(folder.glob(f"{place}/[!.]*") for place in ("models", paths.PARTS, "data/processed"))
    strange = [path for path in places if path.name not in {*root.studies, *root.comparisons, *root.tasks}]
    strange += [path for path in outputs if int(path.name[5:]) not in cells.get(path.parts[-3:-1], ())]
    yield from ((NOTE, f"{path.relative_to(folder)}: is not in params.yaml; remove it") for path in strange)


def _repeated(setup: Setup, cell: tuple[str, str, int]) -> Iterator[Finding]:
    where, job = paths.trained(*cell), training_job(setup, *cell).job
    if wrong := built_in.load(built_in.STAGES, "train").retraced(job, setup.project.folder / where, str(where)):
        yield MISMATCH, f"{where}: the first updates again: {wrong}; {REPRO}"
