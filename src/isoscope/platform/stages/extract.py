"""A cell of stage `extract@<study>`: extract the hidden states of every snapshot of a run over the probe set."""

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import torch

from isoscope.base import paths
from isoscope.base.atomic_files import sha256
from isoscope.base.errors import InputError
from isoscope.base.processes import StopSignal
from isoscope.data import probe, tokens, treebank
from isoscope.data.checkpoints import checkpoint_digest
from isoscope.data.corpus import SPLITS, TREEBANK
from isoscope.models.build import check_device, warn_of_emulation
from isoscope.models.encoder import TWIN_SEED, load_classifier, random_encoder
from isoscope.platform.config.extraction import Extraction
from isoscope.platform.config.project import Study
from isoscope.platform.outputs import epochs_by_update, read_output, weights_by_update
from isoscope.platform.runs.card import CARD
from isoscope.platform.runs.prepared import check_trained_on, content_md5, read_manifest
from isoscope.platform.runs.provenance import dvc_md5, file_md5s, tree_md5
from isoscope.platform.runs.restored import read_metrics
from isoscope.platform.runs.run import Identity, Run, carry_out
from isoscope.platform.runs.stored import check_published
from isoscope.states import hidden_states as passes
from isoscope.states.gradient_steadiness import block_gradients
from isoscope.states.trajectory import RANDOM, Snapshot, extract_snapshots, write_treebank
from isoscope.states.word_states import word_states

OWN = "task"
"""As the name of a treebank: the task's own treebank."""


def extract(
    extraction: Extraction,
    study: Study,
    *,
    name: str,
    arm: str,
    seed: int,
    project: paths.Project,
    output: Path | None,
    stop: StopSignal,
    find: bool = False,
) -> Path | None:
    """Extract the hidden states of a finished run, resume the extraction, or find it done. Return their folder.

    `find`: only find it; return None if it is not done. `output`: where to publish; None publishes nothing. Raises
    `InputError` if the run or its task is missing, `StoppedError` after a signal.
    """
    if not find:
        check_device(extraction.device, key="extraction.device")
    trained = project.folder / paths.trained(name, arm, seed)
    data = project.folder / paths.processed(study.task)
    again = f"isoscope train {name} {arm} --seed {seed}"
    if not (trained / "config.yaml").is_file():
        raise InputError(f"{trained}: does not exist yet; run: {again}")
    read_manifest(project, study.task)
    of_training = read_output(trained).run
    check_trained_on(of_training.inputs, project, study.task, paths.trained(name, arm, seed), again)
    check_published(project, trained)
    bank = trees_of(extraction, data, project)

    def read() -> dict[str, str]:
        # The text of a model card changes no hidden state.
        found = {"model": tree_md5(file_md5s(trained, leave_out={CARD})), "data": content_md5(data)}
        return found if bank is None else found | {"treebank": sha256(bank)}

    inputs = read()
    by_path = {
        paths.trained(name, arm, seed).as_posix(): dvc_md5(trained),
        paths.processed(study.task).as_posix(): dvc_md5(data),
    }
    if bank is not None:
        by_path["/".join(bank.parts[-2:])] = inputs["treebank"]
    run = Run(
        project,
        Identity(
            stage="extract",
            study=name,
            arm=arm,
            seed=seed,
            task=study.task,
            axes={},
            params={"extraction": extraction.model_dump(mode="json")},
            inputs=inputs,
            input_paths=by_path | {"trained by": of_training.digest},
            plugins=of_training.plugins,
        ),
        inputs=read,
    )

    def do(finished: bool) -> None:
        if not finished:
            _extract(run, extraction, trained, data, bank, stop)

    return carry_out(
        run,
        None if find else do,
        stop=stop,
        output=output,
        points=lambda _: [],
        source="snapshots.json",
        facts=lambda done: {"probe": json.loads((done / "snapshots.json").read_text())["facts"]},
    )


def _extract(run: Run, extraction: Extraction, trained: Path, data: Path, trees: Path | None, stop: StopSignal) -> None:
    if extraction.threads is not None:
        torch.set_num_threads(extraction.threads)
    warn_of_emulation(extraction.precision, device=extraction.device, key="extraction.precision")
    run.begin(device=extraction.device, threads=torch.get_num_threads(), precision=extraction.precision)
    folders = sources_of(trained, every=extraction.every)
    tokenizer, max_length = _tokenizer(trained)
    tables = {split: pq.read_table(data / f"{split}.parquet") for split in SPLITS}
    table, seed = tables.pop(extraction.split), extraction.seed
    chosen = probe.probe_set(
        tokenizer,
        table,
        probe.draw_rows(table, list(tables.values()), share=extraction.share, most=extraction.sentences, seed=seed),
        max_length=max_length,
        words=extraction.words,
        block=extraction.block,
        attended=extraction.attended,
        seed=seed,
    )
    bank = None
    if extraction.treebank is not None and trees is None:
        print("the task has no treebank: part of speech and tree depth are not probed", file=sys.stderr)
    if extraction.treebank is not None and trees is not None:
        bank = treebank.read(
            trees,
            tokenizer,
            sentences=extraction.treebank.sentences,
            max_length=max_length,
            seed=seed,
        )
        write_treebank(run.work, bank)

    def arrays(snapshot: Snapshot) -> passes.Arrays:
        if snapshot.name == RANDOM:
            model = random_encoder(folders[snapshot], seed=TWIN_SEED + (run.identity.seed or 0)).to(extraction.device)
            return snapshot_arrays(model, chosen, bank, extraction, pad_id=tokenizer.pad_id)
        classifier = load_classifier(folders[snapshot]).to(extraction.device)
        found = snapshot_arrays(classifier.base_model, chosen, bank, extraction, pad_id=tokenizer.pad_id)
        gradients = block_gradients(
            classifier,
            chosen,
            pad_id=tokenizer.pad_id,
            batch_size=extraction.gradient_batch,
            batches=extraction.gradients,
            seed=seed,
        )
        return found | passes.head(classifier.state_dict()) | {"block_gradient": gradients}

    extract_snapshots(
        run.work,
        chosen,
        [*folders],
        arrays,
        key=f"{run.digest} {chosen.digest}",
        facts={"split": extraction.split},
        title=f"{run.identity.title}: hidden states",
        watch=partial(stop.check, f"{run.identity.title}: stopped; run the same command to resume"),
    )
    run.record.metric("probe/sentences", len(chosen.rows), step=0)
    run.record.metric("probe/words", len(chosen.words.text), step=0)
    run.complete()


def snapshot_arrays(
    model: Any, chosen: probe.ProbeSet, bank: treebank.Treebank | None, extraction: Extraction, *, pad_id: int
) -> passes.Arrays:
    """Return all arrays kept of a model: representations, embedding parts, attention, and the fusion's kernel."""
    options: Any = {"pad_id": pad_id, "batch_size": extraction.batch_size, "bf16": extraction.precision == "bf16"}
    found = passes.hidden_states(model, chosen, **options)
    if bank is not None:
        found["treebank"] = word_states(model, bank, **options).values
    attention = passes.attention(model, chosen, pad_id=pad_id, batch_size=extraction.batch_size)
    return found | attention | passes.kernel(model.state_dict())


def sources_of(trained: Path, *, every: int) -> dict[Snapshot, Path]:
    """Return every n-th snapshot or kept checkpoint of a finished run, by step, with the folder of its weights.

    The chosen and the last snapshot are always included. The twin with random weights comes last.
    """
    epochs, folders = epochs_by_update(trained), weights_by_update(trained)
    steps = {epoch: step for step, epoch in epochs.items()}
    points = read_metrics(trained)
    best = next((int(point["value"]) for point in points if point["name"] == "training/best_epoch"), None)
    if not folders:
        raise InputError(f"{trained}: has neither snapshots nor checkpoints; train this run again")
    taken = {*[*folders][::every], max(folders), *(steps[one] for one in steps if one == best)}
    found = {
        Snapshot(
            f"step-{step}",
            step,
            epochs.get(step),
            best is not None and epochs.get(step) == best,
            sha256(folder / "model.safetensors"),
        ): folder
        for step, folder in folders.items()
        if step in taken
    }
    first = next(iter(found.values()))
    return found | {Snapshot(RANDOM, None, None, False, checkpoint_digest(first)): first}


def _tokenizer(trained: Path) -> tuple[tokens.WordPieces, int]:
    folder = next(iter(sorted((trained / "checkpoints").glob("epoch-*"))), None)
    if folder is None:
        raise InputError(f"{trained}: has no checkpoint with a tokenizer; train this run again")
    settings = json.loads((folder / tokens.CONFIG).read_text("utf-8"))
    return tokens.load(folder), int(settings["model_max_length"])


def trees_of(extraction: Extraction, data: Path, project: paths.Project) -> Path | None:
    """Return the file of the treebank that `extraction` names; None without one."""
    if extraction.treebank is None:
        return None
    if extraction.treebank.file != OWN:
        return treebank.find(extraction.treebank.file, project.folder)
    return data / TREEBANK if (data / TREEBANK).is_file() else None
