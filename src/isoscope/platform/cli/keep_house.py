"""Commands that keep records, stored runs and MLflow in order."""

import sys
from typing import Annotated

import typer

from isoscope.base.errors import InputError
from isoscope.platform.cli.options import KEEP_HOUSE, LOOK, Here, Said, command, heal, load, project_here

DryRun = Annotated[bool, typer.Option("--dry-run", help="Only list what would be removed.")]


@command(KEEP_HOUSE)
def mirror(
    uri: Annotated[str | None, typer.Option(help="MLflow server [default: MLFLOW_TRACKING_URI or mlflow.db].")] = None,
    follow: Annotated[str | None, typer.Option(hidden=True)] = None,
) -> Said:
    """Send missing records to MLflow, and outputs restored from DVC's cache. Repeating changes nothing.

    Example: isoscope mirror --uri http://127.0.0.1:5000
    """
    project = project_here()
    from isoscope.platform.stages.mirror import follow_records, mirror_all

    if follow is not None:
        follow_records(project, uri, None if follow == "all" else follow)
        return None
    heal(project)
    sent = mirror_all(project, uri)
    line = (
        f"mirrored {sent['runs']} runs to {sent['uri']}: {sent['points']} points and {sent['models']} models were new"
    )
    return sent, line


@command(KEEP_HOUSE)
def reconcile() -> Said:
    """Mark runs whose process died as KILLED, here and in MLflow. Live runs are not touched.

    Commands that write or show runs do this when they start.

    Example: isoscope reconcile
    """
    project = project_here()
    healed = heal(project)
    if healed:
        from isoscope.platform.stages.mirror import mirror_all

        mirror_all(project, None)
    lines = [f"{one.title} ({one.digest[:12]}): KILLED" for one in healed] or ["no run to mark as KILLED"]
    return {"killed": [one.digest for one in healed]}, "\n".join(lines)


@command(KEEP_HOUSE)
def accept(
    here: Here,
    studies: Annotated[list[str] | None, typer.Argument(help="Studies of params.yaml [default: all].")] = None,
) -> Said:
    """Keep finished runs valid after a code change that changes no number.

    Recomputes the golden trace (the first 8 updates) of each arm. It must equal the trace of the finished run bit for
    bit. Otherwise nothing is accepted, and the exit code is 1.

    Example: isoscope accept fusion
    """
    project, configuration, *_ = here
    cells = [cell for name in studies or configuration.root.studies for cell in here.cells(name)]
    here.begin(*(configuration.study(name).task for name, *_ in cells))
    stage = load("platform.stages.accept")
    from isoscope.platform.stages.study_cells import Setup, training_job

    setup = Setup(configuration, project, "train")
    found = stage.accept_all(lambda: [training_job(setup, *one) for one in cells], project=project)
    lines = [f"{one.title}: accepted, its golden trace is the same" for one in found]
    return {"accepted": [one.digest for one in found]}, "\n".join(lines or ["nothing to accept"])


@command(KEEP_HOUSE)
def gc(
    idle_days: Annotated[
        float, typer.Option(help="Remove unfinished work that is unchanged for this many days.", min=0)
    ] = 30,
    states: Annotated[bool, typer.Option("--states", help="Also remove the kept states of finished runs.")] = False,
    dry_run: DryRun = False,
) -> Said:
    """Free disk space: remove from .isoscope/ results that DVC caches, abandoned work, files of ended Slurm jobs.

    Never removed: records, outputs that dvc.lock names and DVC's cache lacks, runs by hand, accepted runs (see accept),
    and the work of a live process. Commands restore removed results when they need them. Kept states
    (training.keep_state) are listed, and removed with --states.

    Example: isoscope gc --dry-run
    """
    from isoscope.base.symlinks import dvc_cache
    from isoscope.platform.executor.slurm import ended
    from isoscope.platform.runs.upkeep import clear, kept_states

    project = project_here()
    # First, because the disk may be full: `heal` writes.
    pieces, kept = clear(
        project,
        cache=dvc_cache(project),
        idle_days=idle_days,
        states=states,
        ended=ended(project.slurm),
        dry_run=dry_run,
    )
    heal(project)
    stay = [] if states else kept_states(project)
    verb = "would be removed" if dry_run else "removed"
    lines = [
        f"{verb}: {piece.path.relative_to(project.state)} ({piece.size / 1e6:.1f} MB): {piece.reason}"
        for verb, some in ((verb, pieces), ("kept", stay))
        for piece in some
    ]
    total = sum(piece.size for piece in pieces)
    remains = "would then hold" if dry_run else "holds"
    lines.append(f"{total / 1e6:.1f} MB {verb}; .isoscope {remains} {kept / 1e6:.1f} MB")
    return {
        "removed": [str(piece.path.relative_to(project.state)) for piece in pieces],
        "bytes": total,
        "kept_bytes": kept,
        "kept_states": {str(piece.path.relative_to(project.state)): piece.size for piece in stay},
        "dry_run": dry_run,
    }, "\n".join(lines)


@command(LOOK)
def ls(study: Annotated[str | None, typer.Argument(help="Only runs of this study.")] = None) -> Said:
    """List the runs known here: digest, name, status, state, size on disk, age, time worked, and why a run ended early.

    A `kept state` lets a run of more epochs start there; `resumable`: run the same command again; `restored`: only the
    output is here; `accepted`: it stands for later code; `no output`: it is only in DVC's cache, or gone.

    Example: isoscope ls fusion
    """
    from isoscope.platform.config.explain import nearest

    project, duration = project_here(), load("platform.figures.numbers").duration
    heal(project)
    every = load("platform.stages.inventory").known_runs(project)
    if study not in (known := {None, *(one["study"] for one in every)}):
        raise InputError(f"{study}: no runs of a study of this name{nearest(str(study), filter(None, known))}")
    rows = [one for one in every if study in (None, one["study"])]
    wide = max((len(row["name"]) for row in rows), default=0)
    head = f"{'run':12}  {'name':{wide}}  {'status':8}  {'size':>11}  {'age':>10}  {'worked':>12}  state"
    lines = [head] * bool(rows) + [
        "  ".join(
            (
                f"{one['run'][:12]}  {one['name']:{wide}}  {one['status']:8}",
                f"{one['bytes'] / 1e6:8.1f} MB",
                "         –" if one["age"] is None else f"{one['age'] / 86400:5.1f} days",
                f"{duration(one['worked']):>12}",
                ", ".join(filter(None, (*one["state"], one["reason"]))),
            )
        ).rstrip()
        for one in rows
    ]
    return {"runs": rows}, "\n".join(lines or ["no runs"])


@command(KEEP_HOUSE)
def rm(
    runs: Annotated[list[str], typer.Argument(help="STUDY/ARM, STUDY/ARM/seed-N, or 6 or more digits of a digest.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    mlflow: Annotated[
        bool, typer.Option("--mlflow", help="Also delete them in MLflow, which can restore them.")
    ] = False,
    dry_run: DryRun = False,
) -> Said:
    """Remove runs: published outputs, stored run, record. Say what depends on them, and ask. Training undoes it.

    A run that a process works on is refused. DVC's cache is left alone: while dvc.lock names a run, isoscope train,
    isoscope repro and dvc checkout restore it from there. For good: take it out of params.yaml, run isoscope repro,
    then dvc gc --workspace.

    Example: isoscope rm fusion/additive/seed-0 --dry-run
    """
    project, inventory = project_here(), load("platform.stages.inventory")
    heal(project)
    every = inventory.known_runs(project)
    asked = inventory.chosen(every, runs)
    needed = {one["run"]: inventory.dependents(one, [of for of in every if of not in asked], project) for one in asked}
    said = "\n".join(
        f"{one['name']} ({one['run'][:12]}, {one['bytes'] / 1e6:.1f} MB)"
        f"{'; needed by: ' * bool(needed[one['run']])}{', '.join(needed[one['run']])}"
        for one in asked
    )
    if not (yes or dry_run):
        if not sys.stdin.isatty():
            raise InputError("rm asks before it removes, and nobody can answer here; give --yes (see: --dry-run)")
        typer.confirm(f"{said}\nRemove?", abort=True, err=True)
    if not dry_run:
        inventory.remove_runs(project, asked, mlflow=mlflow)
    return {
        "removed": [*needed],
        "paths": [path for one in asked for path in one["paths"]],
        "dependents": needed,
        "dry_run": dry_run,
    }, f"{said}\n{'would be removed' if dry_run else 'removed'}: {len(asked)}"
