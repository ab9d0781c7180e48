"""Measure what hybrids cost: an epoch of the objective `alignment`, and translations of a test split.

python benchmarks/hybrids.py [--rounds 2] [--updates 20] [--sentences 1000] [--tokens 20] [--smoke]   prints Markdown.

Models of width 256 with random weights; Multi30k if ISOSCOPE_HUB names a folder with `multi30k_ende/`, else generated
pairs. All cases of a table run interleaved.

- Alignment: a limited number of updates of our loop, scaled to 29,000 sentences. Peer: a plain loop of the same three
  forward passes and the same backward pass, over transformers' BertModel, batches in the data's order.
- Translation: `Translation.translated`, and BLEU, chrF and BLEU's shares of the result. Peer: `generate` of
  transformers' EncoderDecoderModel of the same sizes, on the same batches, and sacrebleu's BLEU and chrF. No token ends
  a text, so both sides generate `--tokens` tokens per sentence: the average over batches of Multi30k's test split of
  the longest reference in a batch is 19.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from language import Case, Setting, case, plain, settings
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from timing import bound, conclude, interleave, table
from torch.nn.functional import mse_loss
from transformers import BertConfig, BertModel

from isoscope.data import tokens
from isoscope.geometry.linear_maps import identity
from isoscope.metrics.translation_scores import bleu_shares, translation_scores
from isoscope.models.hybrid import TARGET, hybrid
from isoscope.models.loading import quiet
from isoscope.objectives import alignment
from isoscope.objectives.language import padded
from isoscope.platform.config.load import Configuration
from training import fitted

ROOT = Path(__file__).parents[1]
SIZES = {"layers": 4, "hidden_size": 256, "heads": 4, "intermediate_size": 1024}
"""Layers: of a translation model, half of them in its encoder."""
EPOCH = 29_000
ANCHOR = 0.25


def cases(configuration: Configuration, setting: Setting, sizes: dict[str, int], updates: int) -> tuple[Case, Case]:
    """Return a translation model's case, and that of a masked model as deep as its encoder."""
    cells = [configuration.cell("dynamics", f"{kind}-additive") for kind in ("translation", "masked")]
    depths = sizes["layers"], sizes["layers"] // 2
    both = [
        case(setting._replace(sizes=sizes | {"layers": depth}), cell, updates)
        for cell, depth in zip(cells, depths, strict=True)
    ]
    return both[0], both[1]


def start(translates: Case, masked: Case, folder: Path) -> None:
    """Write a hybrid of two untrained models, as a stage does."""
    reads, writes = (one.objective.build(one.model, None) for one in (masked, translates))
    folder.mkdir()
    joined = hybrid(reads.bert, writes, *identity(SIZES["hidden_size"]))
    tokens.copy(translates.tokenizer, folder, max_length=translates.longest)
    with quiet():
        joined.save_pretrained(folder)
        writes.save_pretrained(folder / TARGET)


def aligned(of: Case, folder: Path) -> float:
    """Return sentences per second of our loop with the objective `alignment`."""
    objective = alignment.Alignment(of.objective.task, anchor=ANCHOR)
    model = objective.build(of.model, folder)
    speed = fitted(model, objective, of.training, tokenizer=of.tokenizer, longest=of.longest)
    batches = objective.plan("train", 1)[: of.updates]
    return speed * sum(map(len, batches)) / sum(objective.tokens("train", rows) for rows in batches)


def aligned_plainly(of: Case) -> float:
    """Return sentences per second of a plain loop over transformers' own encoders."""
    sizes = plain("translation", of).config.encoder.to_dict()
    target, begin = (BertModel(BertConfig(**sizes), add_pooling_layer=False).eval() for _ in range(2))
    model = BertModel(BertConfig(**sizes), add_pooling_layer=False).train()
    linear = torch.nn.Linear(sizes["hidden_size"], sizes["hidden_size"])
    learned = [*model.parameters(), *linear.parameters()]
    optimizer = torch.optim.AdamW(learned, lr=of.training.learning_rate)
    ids, size = of.objective.texts.source["train"].ids, of.training.batch_size
    began = time.perf_counter()
    for first in range(0, of.updates * size, size):
        words, mask = map(torch.from_numpy, padded(ids[first : first + size], of.objective.texts.specials.pad))
        given, there = {"input_ids": words, "attention_mask": mask}, mask.bool()
        with torch.no_grad():
            aim, stay = (one(**given).last_hidden_state[there] for one in (target, begin))
        found = linear(model(**given).last_hidden_state)[there]
        (mse_loss(found, aim) + ANCHOR * mse_loss(found, stay)).backward()
        optimizer.step()
        optimizer.zero_grad()
    return of.updates * size / (time.perf_counter() - began)


def alignments(of: Case, folder: Path, rounds: int) -> tuple[str, ...]:
    """Return a row: best sentences per second of both loops, interleaved, median ratio, and minutes of an epoch."""
    pairs = [(aligned(of, folder), aligned_plainly(of)) for _ in range(rounds)]
    ours, theirs = map(max, zip(*pairs, strict=True))
    ratio = float(np.median([one / other for one, other in pairs]))
    title = f"alignment, encoders of {SIZES['layers'] // 2} layers, updates: {of.updates}"
    bound(f"alignment of {EPOCH:,} sentences", EPOCH / ours / 60, 10, "min")
    return title, f"{ours:,.0f} /s", f"{theirs:,.0f} /s", f"{ratio:.2f} ×", f"{EPOCH:,}: {EPOCH / ours / 60:.1f} min"


def translations(of: Case, beams: int, options: argparse.Namespace) -> tuple[str, ...]:
    """Return a row: least seconds of both sides for the first sentences of the test split, and their ratio."""
    objective: Any = of.objective
    objective.task = objective.task._replace(max_length=options.tokens)
    rows = np.arange(objective.size("test"))[: options.sentences]
    ours, peer = objective.build(of.model, None), plain("translation", of).eval()
    objective.beams = beams
    for model in (ours, peer):
        model.generation_config.eos_token_id = None
    decode = objective.texts.tokenizer.backend.decode_batch
    sources = [""] * len(rows)  # for the share of copies alone
    references = objective.references("test", rows)

    def scored() -> None:
        found = objective.translated(ours, "test", rows)
        translation_scores(found, sources, references, tokenize=objective.tokenize)
        bleu_shares(found, references, tokenize=objective.tokenize)

    @torch.inference_mode()
    def generated() -> None:
        found = [""] * len(rows)
        for part in objective.plan("test", None, rows):
            batch = objective.batch("test", part, None)
            given = {name: torch.from_numpy(batch[name]) for name in ("input_ids", "attention_mask")}
            written = peer.generate(**given, num_beams=beams, do_sample=False, max_length=options.tokens)
            assert written.shape == (len(part), options.tokens)
            for row, text in zip(part.tolist(), decode(written.tolist()), strict=True):
                found[row] = text
        for metric in (BLEU(), CHRF()):
            metric.corpus_score(found, [references])

    timings = interleave({"ours": scored, "peer": generated}, options.rounds, warm_up=0)
    one, other = (timings[name].least for name in ("ours", "peer"))
    depth = of.model["encoder"]["layers"] // 2
    title = f"{len(rows):,} translations, {depth} + {depth} layers, {'greedy' if beams == 1 else f'beam {beams}'}"
    minutes = 1000 / len(rows) * one / 60
    scaled = f"1,000: {minutes:.2f} min"
    bound(title, minutes, 1 if beams == 1 else 4, "min per 1,000")
    bound(f"{title}, to transformers' generate", one / other, 1.2)
    return title, f"{one:.1f} s", f"{other:.1f} s", f"{other / one:.2f} ×", scaled


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2, help="runs of each case (default: 2)")
    parser.add_argument("--updates", type=int, default=20, help="updates of each alignment (default: 20)")
    parser.add_argument("--sentences", type=int, default=1000, help="sentences to translate (default: 1000)")
    parser.add_argument("--tokens", type=int, default=20, help="tokens of a translation (default: 20)")
    parser.add_argument("--smoke", action="store_true", help="test the script: one update, two short translations")
    options = parser.parse_args()
    hubs = [] if options.smoke else os.environ.get("ISOSCOPE_HUB", "").split(os.pathsep)
    if options.smoke:
        options.rounds, options.updates, options.sentences, options.tokens = 1, 1, 2, 4
    configuration = Configuration(ROOT)
    heads = ("measured", "isoscope", "transformers", "ratio", "scaled")
    with tempfile.TemporaryDirectory() as folder:
        hub = any(one and Path(one, "multi30k_ende").is_dir() for one in hubs)
        *_, setting = settings(configuration, Path(folder), hub)
        both = cases(configuration, setting, SIZES, options.updates)
        start(*both, Path(folder, "start"))
        rows = [alignments(both[0], Path(folder, "start"), options.rounds)]
        for layers in (4,) if options.smoke else (4, 8):
            of, _ = cases(configuration, setting, SIZES | {"layers": layers}, options.updates)
            rows += [translations(of, beams, options) for beams in (1, 5)]
        data = setting.title.partition(",")[0]
        print(f"{torch.get_num_threads()} threads, torch {torch.__version__}, {options.tokens} tokens a translation\n")
        print(table(f"{data}, width {SIZES['hidden_size']}, batches of {setting.batch}", heads, rows), flush=True)
    conclude(smoke=options.smoke)


if __name__ == "__main__":
    main()
