"""`isoscope bundle` packs what a reviewer needs as a Workflow Run RO-Crate, `isoscope open` unpacks it."""

import json
import re
import stat
import zlib
from collections.abc import Collection, Iterable, Iterator
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from rocrate import model, rocrate
from tqdm import tqdm

from isoscope.base import paths
from isoscope.base.atomic_files import replacing_file
from isoscope.base.errors import InputError
from isoscope.platform.config.new_project import source
from isoscope.platform.config.project import Root
from isoscope.platform.runs import lines, output_files, prepared, provenance, record, secrets
from isoscope.platform.runs.stored import accepted_runs
from isoscope.platform.stages import export, new

CRATE, SUMS, CITATION, PIPELINE = "ro-crate-metadata.json", str(paths.SUMS), "CITATION.cff", "dvc.yaml"
WFRUN, _PROFILE = "https://w3id.org/ro/wfrun", {"@type": "CreativeWork", "version": "0.5"}
# Files and folders of every bundle; those of its studies, tasks and runs are added.
PROJECT = (
    *provenance.SOURCES,
    *("README.md", "LICENSE", "MLproject", CITATION, "params.schema.json", "dvc.lock", "texts/README.md"),
    *(".dvc/.gitignore", ".dvc/config", ".dvc/plots", ".dvcignore", ".gitattributes", ".gitignore"),
    *map(str, (paths.INDEX, paths.LARGE_TABLES, paths.SEARCH, paths.CONFIRMED)),
)
# Licences of data that may be given to others.
OPEN = re.compile(
    r"(?i)(?!.*\b(nc|nd)\b)(cc0|cc-by(-sa)?|mit|apache|bsd|isc|pddl|odc-by|odbl|unlicense|public.domain)\b.*"
)
_LEFT_OUT = re.compile(r"__pycache__|\.pyc$|\.egg-info|(^|/)\.(?!gitignore$)")
_GIT = re.compile(r"(?i)(^|/)\.git(/|$)")  # git would run what such files say
# Files that stay as they are: data, what is drawn of them, what was written without secrets, and the secrets' patterns.
_AS_WRITTEN = re.compile(
    r"(data|models|texts|\.isoscope|reports/data|reports/parts)/.*|.*\.(parquet|safetensors|svg)"
    r"|src/isoscope/platform/runs/secrets\.py"
)
# Bytes that a bundle may have unpacked, or this many times its size, if that is more.
LARGEST, DENSEST = 1_000_000_000, 200
PACKED = (ZIP_STORED, ZIP_DEFLATED)


def bundle(out: Path, root: Root, project: paths.Project, *, studies: Collection[str], weights: bool) -> dict[str, Any]:
    """Write the bundle of studies, and of comparisons of only them, to the new file `out`. Equal projects, equal bytes.

    Returns its number of files, the tasks whose data are left out (their licence does not allow it, or is unknown), and
    the files in which a secret was replaced. `weights`: with those of the models. Raises `InputError` if `out` exists
    or a task is not prepared.
    """
    if out.resolve().exists():  # also behind a folder that is not there yet, as in new/../file
        raise InputError(f"OUT {out}: exists already; give a new name, or remove it")
    names = [*studies, *(name for name, one in root.comparisons.items() if {*one.compared} <= {*studies})]
    tasks = {one: prepared.read_manifest(project, one) for one in sorted({root.studies[name].task for name in studies})}
    given = {task for task, manifest in tasks.items() if OPEN.fullmatch(str(manifest["licence"]))}
    places = [*PROJECT, *(f"{place}/{name}" for name in names for place in (paths.PARTS, "models"))]
    files = dict(_files(project.folder, [*places, *_of_tasks(project, tasks, given)], weights))
    runs = {output_files.named_digest(file) for file in files.values() if file.name == output_files.CONFIG}
    records = [
        one
        for one in map(record.read, sorted(project.records.glob("*.jsonl")))
        if one.run and (one.run.study in names or one.run.digest in runs)
    ]
    beside = [
        *(name for one in records if one.run for name in (f"{one.run.digest}.jsonl", f"code/{one.run.code}.json")),
        *(f"diffs/{of.git.get('diff_sha256')}.patch" for one in records for of in one.attempts),
    ]
    files |= {f".isoscope/records/{name}": file for name in beside if (file := project.records / name).is_file()}
    notes = accepted_runs(project)
    accepted = [note for one in records if one.run for note in notes.get(one.run.digest, ())]
    files |= {note.relative_to(project.state).as_posix(): note for note in accepted}
    files.setdefault(CITATION, source() / CITATION)
    contents, sums, scrubbed = {name: file.read_bytes for name, file in sorted(files.items())}, dict[str, str](), []
    contents[CRATE] = lambda: json.dumps(_crate(root, sums, records), indent=1, sort_keys=True).encode()
    contents[SUMS] = lambda: "".join(f"{digest}  {name}\n" for name, digest in sums.items()).encode()
    with replacing_file(out, "table") as fresh, ZipFile(fresh, "w", ZIP_DEFLATED) as zipped:
        for name, read in tqdm(contents.items(), desc=f"bundle {out}", unit="file", disable=None):
            written = _without_secrets(name, content := read())
            scrubbed += [name] * (written != content)
            sums[name] = sha256(written).hexdigest()
            zipped.writestr(ZipInfo(name), written, ZIP_DEFLATED)
    return {"files": len(contents), "without_data": sorted(tasks.keys() - given), "scrubbed": scrubbed}


def _of_tasks(project: paths.Project, tasks: Iterable[str], given: Collection[str]) -> Iterator[str]:
    """Yield the manifests of tasks; of those that may be given to others, all files and the file of their source."""
    for folder, task in ((paths.processed(task), task) for task in tasks):
        settings = json.loads((project.folder / folder / prepared.SETTINGS).read_text("utf-8"))
        yield from (f"{folder}/{name}" for name in (prepared.MANIFEST, prepared.SETTINGS))
        yield from (str(folder), str(settings["data"]["source"].get("path", folder))) if task in given else ()


def _files(folder: Path, places: Iterable[str], weights: bool) -> Iterator[tuple[str, Path]]:
    """Yield name and path of the files at the places that lie in the folder; in places, no hidden files."""
    for place in (folder / one for one in places if lines.is_inside(one)):
        inside = (one for one in place.rglob("*") if not _LEFT_OUT.search(one.relative_to(place).as_posix()))
        found = (one for one in (place, *inside) if one.is_file() and (weights or one.suffix != ".safetensors"))
        yield from ((file.relative_to(folder).as_posix(), file) for file in found)


def _without_secrets(name: str, content: bytes) -> bytes:
    """Return the content of a file, a text that people write without its secrets."""
    if _AS_WRITTEN.fullmatch(name):
        return content
    return secrets.scrub(content.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def _crate(root: Root, sums: dict[str, str], records: Iterable[lines.RunRecord]) -> dict[str, Any]:
    """Return the crate's metadata: each file with its sha256, the pipeline, and an action per finished run."""
    crate = rocrate.ROCrate(version="1.1")
    crate.name = root.report.title or "Studies of isoscope"
    crate.description = f"A project of isoscope; start with {paths.INDEX}"
    crate.license = "https://spdx.org/licenses/Apache-2.0"  # of the code; data have theirs in their manifest
    crate.datePublished = datetime.fromtimestamp(
        max((one.latest for one in records), default=0) // 1000, UTC
    ).isoformat()
    crate.metadata.extra_terms["sha256"] = "https://w3id.org/ro/terms/workflow-run#sha256"
    dvc = model.ComputerLanguage(crate, "https://dvc.org", {"name": "DVC", "url": {"@id": "https://dvc.org"}})
    for name, known in sums.items():
        about = {"dest_path": name, "properties": {"name": name, "sha256": known}}
        crate.add_workflow(**about, main=True, lang=crate.add(dvc)) if name == PIPELINE else crate.add_file(**about)
    for relation, one in (
        *(("conformsTo", _PROFILE | {"@id": f"{WFRUN}/{kind}/0.5", "name": kind}) for kind in ("process", "workflow")),
        *(("mentions", _action(one, sums)) for one in records if one.status == lines.FINISHED),
    ):
        crate.root_dataset.append_to(relation, crate.add_jsonld(one))
    return dict(crate.metadata.generate())


def _action(one: lines.RunRecord, names: Iterable[str]) -> dict[str, Any]:
    """Return a finished run as an action of the pipeline."""
    run, output = one.run, f"{one.end and one.end.output}/"
    return {
        "@id": f"#{run and run.digest}",
        "@type": "CreateAction",
        "name": f"{run and run.study} {run and run.title}",
        "instrument": {"@id": PIPELINE},
        "object": [{"@id": str(paths.PARAMS)}],
        "endTime": datetime.fromtimestamp((one.end.t if one.end else one.latest) // 1000, UTC).isoformat(),
        "result": [{"@id": name} for name in names if name.startswith(output)],
    }


def unpack(archive: Path, out: Path) -> list[str]:
    """Check every file of a bundle by its hash, and make it the project `out`, a new folder and git repository.

    Returns what git did not do. Nothing is left behind if a check fails: raises `InputError` for a damaged, missing or
    added file, a name that leads out of the folder, a link, and a bundle that unpacks to far more than its size.
    """
    if not archive.is_file():
        raise InputError(f"BUNDLE {archive}: no such file")
    name = SUMS
    try:
        with export.new_folder(out) as fresh, ZipFile(archive) as zipped:
            entries = zipped.infolist()
            sizes = {one.filename: one.file_size for one in entries}
            wrong = [
                f"{name!r} is a link or leads elsewhere"
                for name, mode in ((one.filename, one.external_attr >> 16) for one in entries)
                if not lines.is_inside(name) or _GIT.search(name) or stat.S_IFMT(mode) not in (0, stat.S_IFREG)
            ]
            many = sum(sizes.values()) > max(LARGEST, DENSEST * archive.stat().st_size) or len(entries) > len(sizes)
            wrong += [
                f"{one.filename}: is packed as isoscope bundle packs nothing"
                for one in entries
                if one.compress_type not in PACKED
            ]
            if wrong := wrong + ["it unpacks to too many bytes, or has a name twice"] * many:
                raise InputError(f"BUNDLE {archive}: {wrong[0]}; nothing was unpacked")
            sums = {
                name: digest
                for digest, _, name in (line.partition("  ") for line in zipped.read(SUMS).decode().splitlines())
            }
            if different := sums.keys() ^ (sizes.keys() - {SUMS}):
                raise InputError(f"BUNDLE {archive}: {min(different)} is not both in it and in {SUMS}; get it again")
            (fresh / SUMS).write_bytes(zipped.read(SUMS))  # isoscope audit reads it
            for name, known in tqdm(sums.items(), desc=f"open {archive}", unit="file", disable=None):
                if sha256(content := zipped.read(name)).hexdigest() != known:
                    raise BadZipFile("another hash")
                (fresh / name).parent.mkdir(parents=True, exist_ok=True)
                (fresh / name).write_bytes(content)
            return new.commit(fresh, f"isoscope open {archive.name}")
    except (
        BadZipFile,
        zlib.error,
        KeyError,
        ValueError,
        EOFError,
        RuntimeError,
        FileNotFoundError,
        FileExistsError,
    ) as error:
        raise InputError(f"BUNDLE {archive}: {name} is damaged, or it is no bundle ({error}); get it again") from None
