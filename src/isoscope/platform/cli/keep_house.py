"""Commands that keep records, stored runs and MLflow in order."""

from typing import Annotated

import typer

from isoscope.platform.cli.options import KEEP_HOUSE, Here, Said, command, heal, load, project_here


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
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would be removed.")] = False,
) -> Said:
    """Free disk space: remove from .isoscope/ results that DVC caches, abandoned work, and leftovers.

    Never removed: records, outputs that dvc.lock names and DVC's cache lacks, runs by hand, accepted runs (see accept),
    and the work of a live process. Commands restore removed results when they need them.

    Example: isoscope gc --dry-run
    """
    from isoscope.base.symlinks import dvc_cache
    from isoscope.platform.runs.upkeep import clear

    project = project_here()
    # First, because the disk may be full: `heal` writes.
    pieces, kept = clear(project, cache=dvc_cache(project), idle_days=idle_days, dry_run=dry_run)
    heal(project)
    verb = "would be removed" if dry_run else "removed"
    lines = [
        f"{verb}: {piece.path.relative_to(project.state)} ({piece.size / 1e6:.1f} MB): {piece.reason}"
        for piece in pieces
    ]
    total = sum(piece.size for piece in pieces)
    remains = "would then hold" if dry_run else "holds"
    lines.append(f"{total / 1e6:.1f} MB {verb}; .isoscope {remains} {kept / 1e6:.1f} MB")
    removed = [str(piece.path.relative_to(project.state)) for piece in pieces]
    return {"removed": removed, "bytes": total, "kept_bytes": kept, "dry_run": dry_run}, "\n".join(lines)
