"""Compare the training speed of language and translation models with transformers' Trainer.

python benchmarks/language.py [--rounds 3] [--updates 60] [--smoke]   prints Markdown.

The embedded profile of the study `dynamics` (task `reordered`). If ISOSCOPE_HUB names a folder with `multi30k_ende/`,
also 4 layers of 128 on it. The Trainer trains transformers' own classes of the same sizes with dynamic padding and its
collators, as in its documentation. All runs share one process, interleaved. A sentence of a translation is a pair.
"""

import argparse
import os
import tempfile
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from timing import bound, conclude, table
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertForMaskedLM,
    BertLMHeadModel,
    DataCollatorForLanguageModeling,
    DataCollatorForSeq2Seq,
    EncoderDecoderConfig,
    EncoderDecoderModel,
)

from isoscope.base import registry
from isoscope.base.paths import Project
from isoscope.objectives import Task
from isoscope.objectives.language import LanguageModel
from isoscope.platform.config.load import Configuration, ResolvedCell
from isoscope.platform.config.training import Training
from isoscope.platform.runs.prepared import read_manifest
from isoscope.platform.stages.prepare import prepare
from training import fitted, trainer_seconds

ROOT = Path(__file__).parents[1]
OBJECTIVES = ("masked", "causal", "translation")
SMALL = {"layers": 4, "hidden_size": 128, "heads": 4, "intermediate_size": 512}


class Setting(NamedTuple):
    """A prepared task, and the sizes that replace those of params.yaml's study `dynamics`."""

    title: str
    folder: Path
    manifest: Mapping[str, Any]
    sizes: Mapping[str, int]
    batch: int


def settings(configuration: Configuration, folder: Path, hub: bool) -> Iterator[Setting]:
    """Yield the embedded task, and Multi30k."""
    for name, title, sizes, batch in (
        ("reordered", "Embedded pairs, 2 layers of 64", {}, 32),
        ("multi30k", "Multi30k, 4 layers of 128", SMALL, 64),
    ):
        if name == "reordered" or hub:
            project = Project(folder, folder)
            data = prepare(configuration.data(name), task=name, project=project)
            yield Setting(title, data, read_manifest(project, name), sizes, batch)


class Case(NamedTuple):
    """What one objective trains in a setting."""

    objective: LanguageModel
    model: Mapping[str, Any]
    training: Training
    tokenizer: Path
    longest: int
    updates: int


def case(setting: Setting, cell: ResolvedCell, updates: int) -> Case:
    """Return an objective on a setting's task; the training ends after `updates`, within the first epoch."""
    given = cell.cell
    task = Task(
        folder=setting.folder,
        manifest=setting.manifest,
        tokenizer=setting.folder / "tokenizer",
        max_length=given.model.max_length,
        fraction=1.0,
        batch_size=setting.batch,
        bucket=given.training.bucket,
        seed=0,
    )
    options = given.objective.model_dump(exclude={"kind"})
    if "tokenize" in options:
        options["tokenize"] = "13a"  # the words of BLEU, which a run takes from the language of its task
    objective = registry.OBJECTIVES[given.objective.kind].make(options, task=task)
    budget = {"kind": "updates", "number": updates}
    snapshots = {"steps": "none", "epochs": False}
    changes = {"batch_size": setting.batch, "epochs": 1, "keep": "last", "checkpoint_every": 10**9, "allocation": None}
    training = Training.model_validate(
        given.training.model_dump() | changes | {"budget": budget, "snapshots": snapshots}
    )
    encoder = given.model.encoder.model_dump() | setting.sizes
    return Case(
        objective,
        {"encoder": encoder, "fusion": given.model.fusion.model_dump()},
        training,
        task.tokenizer,
        task.max_length,
        updates,
    )


def ours(of: Case) -> float:
    """Return sentences per second of our loop."""
    model = of.objective.build(of.model, None)
    speed = fitted(model, of.objective, of.training, tokenizer=of.tokenizer, longest=of.longest)
    batches = of.objective.plan("train", 1)[: of.updates]
    tokens = sum(of.objective.tokens("train", rows) for rows in batches)
    return speed / tokens * sum(map(len, batches))


def trainer(kind: str, of: Case) -> float:
    """Return sentences per second of the Trainer, on as many updates of as many sentences."""
    tokenizer = AutoTokenizer.from_pretrained(of.tokenizer)
    texts = of.objective.texts
    source, target = texts.source["train"].ids, texts.target["train"].ids
    if kind == "translation":
        rows = [
            {"input_ids": one.tolist(), "labels": other.tolist()} for one, other in zip(source, target, strict=True)
        ]
        collator: Any = DataCollatorForSeq2Seq(tokenizer)
    else:
        rows = [{"input_ids": one.tolist()} for one in source]
        collator = DataCollatorForLanguageModeling(tokenizer, mlm=kind == "masked")
    seconds = trainer_seconds(plain(kind, of), rows, collator, of.training, max_steps=of.updates)
    return of.updates * of.training.batch_size / seconds


def plain(kind: str, of: Case) -> Any:
    """Return transformers' model of the same sizes, with random weights."""
    encoder, texts = of.model["encoder"], of.objective.texts
    sizes = BertConfig(
        vocab_size=texts.tokenizer.vocab_size,
        hidden_size=encoder["hidden_size"],
        num_hidden_layers=encoder["layers"],
        num_attention_heads=encoder["heads"],
        intermediate_size=encoder["intermediate_size"],
        hidden_act=encoder["activation"],
        hidden_dropout_prob=encoder["dropout"],
        attention_probs_dropout_prob=encoder["attention_dropout"],
        max_position_embeddings=encoder["max_positions"],
        pad_token_id=texts.specials.pad,
    ).to_dict()
    if kind == "masked":
        return BertForMaskedLM(BertConfig(**sizes))
    if kind == "causal":
        return BertLMHeadModel(BertConfig(**sizes | {"is_decoder": True}))
    sizes |= {"num_hidden_layers": encoder["layers"] // 2}
    reads, writes = BertConfig(**sizes), BertConfig(**sizes | {"is_decoder": True, "add_cross_attention": True})
    both = EncoderDecoderConfig.from_encoder_decoder_configs(reads, writes)
    both.pad_token_id, both.decoder_start_token_id = texts.specials.pad, texts.specials.begin
    return EncoderDecoderModel(both)


def speeds(title: str, kind: str, of: Case, rounds: int) -> tuple[str, ...]:
    """Return a row: best sentences per second of both loops, interleaved, and their ratio."""
    seen: dict[str, list[float]] = {"ours": [], "trainer": []}
    runs = {"ours": partial(ours, of), "trainer": partial(trainer, kind, of)}
    for _ in range(rounds):
        for name, run in runs.items():
            seen[name].append(run())
    best = {name: max(values) for name, values in seen.items()}
    ratios = np.array(seen["ours"]) / np.array(seen["trainer"])
    bound(f"{title}: {kind}, sentences/s, to the Trainer", float(np.median(ratios)), 1.3, least=True)
    return (kind, *(f"{best[name]:,.0f}" for name in runs), f"{np.median(ratios):.2f} ×")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="trainings of each loop (default: 3)")
    parser.add_argument("--updates", type=int, default=60, help="updates of each training (default: 60)")
    parser.add_argument("--smoke", action="store_true", help="test the script: one training of three updates each")
    options = parser.parse_args()
    hubs = [] if options.smoke else os.environ.get("ISOSCOPE_HUB", "").split(os.pathsep)
    if options.smoke:
        options.rounds, options.updates = 1, 3
    configuration = Configuration(ROOT)
    print(f"{torch.get_num_threads()} threads, torch {torch.__version__}\n")
    heads = ("objective", "isoscope, sentences/s", "Trainer, sentences/s", "median ratio of rounds")
    with tempfile.TemporaryDirectory() as folder:
        hub = any(one and Path(one, "multi30k_ende").is_dir() for one in hubs)
        for setting in settings(configuration, Path(folder), hub):
            rows = []
            for kind in OBJECTIVES:
                cell = configuration.cell("dynamics", f"{kind}-additive")
                rows.append(speeds(setting.title, kind, case(setting, cell, options.updates), options.rounds))
            print(table(setting.title, heads, rows), flush=True)
    conclude(smoke=options.smoke)


if __name__ == "__main__":
    main()
