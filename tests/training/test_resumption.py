"""A run of any kind that is stopped or killed, and resumed, writes the bytes of a run that nothing happened to."""

from pathlib import Path
from typing import Any

import pytest

from isoscope.training.progress import InterruptedRunError
from language_material import ALLOCATED, causal_lm, masked_lm, pairs, translates
from training_runs import Killed, files, kill_in, make_loop, stop_after

POINTS = {"layer": -1, "vectors": "first", "most": None}
ENTROPY = {"kind": "persistent_entropy", "clouds": "class", "selection": "all", "k": None, "in_cluster": 0.0,
           "weight": 0.5, "warmup": 0.0, "points": POINTS}  # fmt: skip
ISOSCORE = {"kind": "isoscore", "zeta": 0.2, "reference": 40, "weight": 0.5, "warmup": 0.0, "points": POINTS}
TOKENS = {"clouds": "batch", "points": {"layer": 1, "vectors": "tokens", "most": 20}}
WATCHED = {"watch": {"layer": -1, "vectors": "first", "sample": 12, "clusters": 2}, "evaluations": 2}
SLICED = {
    "sentences": 16, "estimator": "simpson", "tolerance": None, "most_splits": 16, "dense": 1, "chords": 2,
    "probability": 0.12,
}  # fmt: skip
FROZEN = {"after": 2, "until": None, "groups": ["enc.1.W1", "enc.emb"]}
RUNS: dict[str, dict[str, Any]] = {
    "masked, frozen, allocated": {"make": masked_lm, "table": pairs, "allocation": ALLOCATED, "freeze": FROZEN},
    "causal, allocated": {"make": causal_lm, "table": pairs, "allocation": ALLOCATED},
    "translation, allocated, sliced": {"make": translates, "table": pairs, "allocation": ALLOCATED, "slices": SLICED},
    "allocated": {"allocation": ALLOCATED | {"dense": 2, "chords": 2}},
    "isoscore": {"penalty": ISOSCORE, **WATCHED},
    "random bars": {"penalty": ENTROPY | {"selection": "random-k"}, **WATCHED},
    "tokens": {"penalty": ENTROPY | TOKENS, **WATCHED},
    "shuffled": {"penalty": ENTROPY | {"clouds": "shuffled"}, **WATCHED},
}


@pytest.mark.parametrize("signal, update, saved", [(stop_after, 8, 8), (kill_in, 3, 2)], ids=["stopped", "killed"])
@pytest.mark.parametrize("name", RUNS)
def test_a_resumed_run_writes_the_same_bytes(tmp_path: Path, name: str, signal: Any, update: int, saved: int) -> None:
    settings = RUNS[name] | {"checkpoint_every": 1 if signal is kill_in else 3}
    whole = make_loop(tmp_path / "whole", **settings)
    whole.test(whole.fit())
    with pytest.raises((Killed, InterruptedRunError)):
        make_loop(tmp_path / "parts", stop=signal(update), **settings).fit()
    rest = make_loop(tmp_path / "parts", **settings)
    assert rest.progress.step == saved
    rest.test(rest.fit())
    assert files(tmp_path / "whole/work") == files(tmp_path / "parts/work")
