"""Compare sentences by bags of untrained vectors, on the test split of STS-B; run it at the root of a checkout.

Needs `isoscope profile remedies_sst2`, and ISOSCOPE_HUB with `stsb/` and the tokenizer. Nothing is trained: each arm's
encoder gets the random weights of each seed. A sentence is the mean of its tokens' vectors (without [CLS] and [SEP])
after the embedding block or at the last layer. Two sentences are compared by their cosine, pairs are ranked by it.
Writes docs/results/remedies/bag.csv: arm, seed, vectors, metric, value; the arm `word table` is a bag of word vectors.

spearman            rank correlation of the cosine with the graded similarity
spearman_centred    the same after the mean over all sentences is subtracted
spearman_control    the same as the first with the pairs' grades shuffled
"""

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy.stats import spearmanr

from isoscope.data import hub
from isoscope.data.checkpoints import fetch_checkpoint
from isoscope.data.tokens import load
from isoscope.models.build import from_scratch
from isoscope.platform.config.load import Configuration

SEEDS = range(500, 505)
STORED = Path(__file__).parent / "remedies/bag.csv"
Bags = dict[str, np.ndarray]


def pairs() -> pd.DataFrame:
    """Return the test split of STS-B: sentence1, sentence2, score from 0 to 5."""
    files = [folder / "stsb/test.parquet" for folder in hub.folders()]
    found = next((file for file in files if file.is_file()), None)
    if found is None:
        raise SystemExit("ISOSCOPE_HUB: no folder holds stsb/test.parquet")
    return pd.read_parquet(found, columns=["sentence1", "sentence2", "score"])


@torch.no_grad()
def bags(model: torch.nn.Module, encodings: list[Any], *, batch: int = 128) -> Bags:
    """Return a row per sentence: means of word vectors, of the embedding block's output and of the last layer."""
    names = ("word table", "block", "last")
    found: dict[str, list[np.ndarray]] = {name: [] for name in names}
    order = np.argsort([len(one.ids) for one in encodings], kind="stable")  # sentences of one length need no padding
    for start in range(0, len(order), batch):
        own = [encodings[row] for row in order[start : start + batch]]
        longest = max(len(one.ids) for one in own)
        ids, seen, inner = (torch.zeros(len(own), longest, dtype=torch.long) for _ in range(3))
        for row, one in enumerate(own):
            ids[row, : len(one.ids)] = torch.tensor(one.ids)
            seen[row, : len(one.ids)] = 1
            inner[row, 1 : len(one.ids) - 1] = 1
        encoder = model.base_model
        states = encoder(input_ids=ids, attention_mask=seen, output_hidden_states=True).hidden_states
        parts = (encoder.embeddings.word_embeddings(ids), states[0], states[-1])
        for name, part in zip(names, parts, strict=True):
            weight = inner.unsqueeze(-1)
            found[name].append(((part * weight).sum(1) / weight.sum(1)).double().numpy())
    return {name: np.concatenate(rows)[np.argsort(order)] for name, rows in found.items()}


def scores(rows: np.ndarray, grades: np.ndarray, seed: int) -> Iterator[tuple[str, float]]:
    """Yield the rank correlations of the cosines of row i and row i + n with grade i."""
    centred = rows - rows.mean(0)
    shuffled = np.random.default_rng(seed).permutation(grades)
    for name, points, to in (
        ("spearman", rows, grades),
        ("spearman_centred", centred, grades),
        ("spearman_control", rows, shuffled),
    ):
        unit = points / np.linalg.norm(points, axis=1, keepdims=True)
        first, second = np.split(unit, 2)
        yield name, float(spearmanr((first * second).sum(1), to).statistic)


def untrained(model: Mapping[str, Any], vocabulary: Any, seed: int) -> torch.nn.Module:
    """Build the encoder of an arm with the weights that a run with this seed starts from."""
    encoder = {name: value for name, value in model["encoder"].items() if name not in ("kind", "tokenizer")}
    sizes = {"vocab_size": vocabulary.vocab_size, "pad_id": vocabulary.pad_id}
    return from_scratch(**encoder, **sizes, fusion=model["fusion"], labels=("0", "1"), seed=seed).eval()


def measure(seeds: range) -> Iterator[tuple[object, ...]]:
    """Yield the rows of bag.csv."""
    table = pairs()
    cells = Configuration(Path()).cells("remedies")
    for arm, cell in cells.items():
        model = cell.cell.model.model_dump(mode="json")
        source = model["encoder"]["tokenizer"]
        vocabulary = load(fetch_checkpoint(source["checkpoint"], revision=source["revision"]), padded=False)
        sentences = [*table["sentence1"], *table["sentence2"]]
        encodings = vocabulary.backend.encode_batch(sentences)
        for seed in seeds:
            for vectors, rows in bags(untrained(model, vocabulary, seed), encodings).items():
                if vectors != "word table" or arm == "additive":  # word tables of one seed are the same in all arms
                    name = "word table" if vectors == "word table" else arm
                    for metric, value in scores(rows, table["score"].to_numpy(), seed):
                        yield name, seed, vectors, metric, value
        print(f"{arm}: done", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", type=Path, default=STORED, help="file to write")
    parser.add_argument("--seeds", type=int, default=len(SEEDS), help="number of seeds")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    table = pd.DataFrame(measure(SEEDS[: arguments.seeds]), columns=["arm", "seed", "vectors", "metric", "value"])
    table.to_csv(arguments.to, index=False, lineterminator="\n")
    print(f"{arguments.to}: {len(table)} rows")


if __name__ == "__main__":
    main()
