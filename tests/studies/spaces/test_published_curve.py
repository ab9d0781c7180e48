"""`isoscope reproduce spaces`: the published procedure on planted and real states, its verdicts and its exit code."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from transformers import AutoModel

from isoscope.base.errors import InputError
from isoscope.data import tokens
from isoscope.geometry import avg_sim
from isoscope.platform.cli import app
from isoscope.platform.results.published import reproduced
from isoscope.states.given_checkpoints import find
from isoscope.studies.spaces.published_curve import (
    PAIRS,
    PUBLISHED,
    SENTENCES,
    Sampled,
    cells,
    published_spaces,
    repeated,
)
from probe_material import bert, pieces, sentences

TEXTS = sentences()["sentence"].to_pylist()
NAMES = {"org/one": 300, "org/two": 240}
SMALL = {
    **PUBLISHED,
    "checkpoints": ["org/small"],
    "config": {"model_type": "bert", "hidden_size": 16, "num_hidden_layers": 2},
    "data": NAMES,
    "curves": {name: one | {"values": [0.0, 0.0, 0.0]} for name, one in PUBLISHED["curves"].items()},
}


def planted(shares: Sequence[float], *, count: int = 3000, width: int = 400) -> Sampled:
    """Return states of layers whose vectors have this mean cosine: a common direction and independent parts.

    A sentence's tokens have a mean cosine of .5 with their mean, and a length that is their number.
    """
    random = np.random.default_rng(0)
    own = random.standard_normal((len(shares), count, width))
    own[..., 0] = 0
    own /= np.linalg.norm(own, axis=-1, keepdims=True)
    own *= np.sqrt(1 - np.array(shares))[:, None, None]
    own[..., 0] = np.sqrt(shares)[:, None]
    sizes = random.integers(1, 30, count)
    return Sampled(own, np.full(own.shape[:2], 0.5), np.tile(sizes.astype(float), (len(shares), 1)), sizes)


def test_the_procedure_has_the_mean_cosine_of_all_pairs_and_of_a_vector_with_itself() -> None:
    states = planted([0.0, 0.3, 0.9])
    whole = repeated(states, seed=0)
    found, every = whole["avg_sim"], np.array([avg_sim(layer) for layer in states.token])
    assert every == pytest.approx([0.0, 0.3, 0.9], abs=1e-3)
    # Pairs are drawn with replacement: one of SENTENCES is a vector with itself.
    expected = every + (1 - every) / SENTENCES
    assert np.abs(found.mean(0) - expected) == pytest.approx(0, abs=4 * found.std(0).max() / 10)
    # Of independent directions in 399 dimensions, a cosine has the variance 1/399.
    assert found.std(0)[0] == pytest.approx((1 / 399 / PAIRS + 1 / SENTENCES / PAIRS) ** 0.5, rel=0.25)
    assert (repeated(states, seed=0)["avg_sim"] == found).all()
    assert (whole["sentence_words"] == 0.5).all()
    sizes = states.tokens
    assert whole["norm"].mean(0) == pytest.approx((sizes**2).sum() / sizes.sum(), rel=0.01)  # long sentences count more
    with pytest.raises(InputError, match="999 sentences; the published procedure draws 1,000; give more"):
        repeated(planted([0.0], count=999), seed=0)


def verdicts(published: Sequence[float], found: Any, differs: Sequence[str] = ()) -> list[str]:
    known = PUBLISHED | {"curves": {"avg_sim": {"tolerance": 0.05, "values": published}}}
    return [cell["verdict"] for cell in cells({"avg_sim": found}, known, differs)]


def test_verdicts() -> None:
    whole = repeated(planted([0.3, 0.3, 0.3, 0.3]), seed=0)
    found = whole["avg_sim"]
    assert verdicts([0.3, 0.34, 0.37, 0.23], found) == ["pass", "pass", "fail", "fail"]
    noisy = found + np.random.default_rng(0).normal(0, 0.02, found.shape)
    assert verdicts([0.3, 0.34, 0.5, 0.1], noisy) == ["pass", "under-powered", "fail", "fail"]
    assert verdicts([0.3, 0.3, 0.3, 0.3], found, ["other sentences"]) == ["no verdict"] * 4
    assert verdicts([0.3, 0.6], found) == ["pass", "fail", "no verdict", "no verdict"]
    assert reproduced([*cells(whole, PUBLISHED, [])], PUBLISHED).failed
    assert not reproduced([*cells(whole, PUBLISHED, ["other sentences"])], PUBLISHED).failed


def test_the_published_curves_are_of_thirteen_layers_and_five_data_sets() -> None:
    for curve in PUBLISHED["curves"].values():
        assert len(curve["values"]) == PUBLISHED["config"]["num_hidden_layers"] + 1 == 13
    assert sum(PUBLISHED["data"].values()) == 12_544


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of ISOSCOPE_HUB with a small model and two data sets of pairs."""
    folder = tmp_path / "hub"
    bert().save_pretrained(folder / "org/small")
    pieces(folder / "org/small")
    random = np.random.default_rng(0)
    for name, pairs in NAMES.items():
        (folder / name).mkdir()
        columns = [[f"{text} {one}" for one, text in enumerate(random.choice(TEXTS, pairs))] for _ in range(2)]
        pq.write_table(pa.table(columns, ["sentence1", "sentence2"]), folder / name / "test.parquet")
    monkeypatch.setenv("ISOSCOPE_HUB", str(folder))
    monkeypatch.chdir(tmp_path)
    return folder


@torch.no_grad()
def every_token(folder: Path, texts: list[str]) -> dict[str, list[float]]:
    """Return the figures by layer of all sentences; AvgSim of their mean unit vectors, the expectation over a token."""
    backend, model = tokens.load(folder, padded=False).backend, AutoModel.from_pretrained(folder).eval()
    means, within, lengths = [], [], []
    for text in texts:
        states = model(torch.tensor([backend.encode(text).ids]), output_hidden_states=True).hidden_states
        layers = torch.stack(states).double()[:, 0, 1:-1]
        means.append((layers / layers.norm(dim=-1, keepdim=True)).mean(1).numpy())
        within.append(torch.cosine_similarity(layers, layers.mean(1, keepdim=True), dim=-1).mean(1).numpy())
        lengths.append(layers.norm(dim=-1).numpy())
    total = np.array(means)
    pairs = (total.sum(0) ** 2).sum(-1) - (total**2).sum(-1).sum(0)
    found = {"avg_sim": pairs / (len(texts) * (len(texts) - 1)), "sentence_words": np.mean(within, axis=0)}
    return {name: one.tolist() for name, one in (found | {"norm": np.concatenate(lengths, axis=1).mean(1)}).items()}


def test_a_curve_of_the_same_model_and_data_passes_and_others_have_no_verdict(hub: Path, tmp_path: Path) -> None:
    """The published curve is computed here by another route: all tokens, in closed form."""
    texts = [
        text for name in NAMES for column in pq.read_table(hub / name / "test.parquet") for text in column.to_pylist()
    ]
    expected = every_token(hub / "org/small", texts)
    known = SMALL | {"curves": {name: {"tolerance": 0.05, "values": values} for name, values in expected.items()}}
    found = published_spaces(None, None, find=find, known=known)
    assert [cell["verdict"] for cell in found.cells] == ["pass"] * 9
    assert max(abs(cell["difference"]) for cell in found.cells) < 0.02
    assert not found.failed
    for name, values in expected.items():  # each figure can fail
        shifted = {name: {"tolerance": 0.05, "values": [value - 0.2 for value in values]}}
        assert published_spaces(None, None, find=find, known=known | {"curves": known["curves"] | shifted}).failed
    (tmp_path / "same.txt").write_text("\n".join(texts), "utf-8")
    for options, reason in (
        ({"text": tmp_path / "same.txt"}, "sentences of same.txt, not of org/one, org/two"),
        ({"checkpoint": str(hub / "org/small")}, "not org/small"),
        ({"known": known | {"config": {"vocab_size": 28996}}}, "config.json: vocab_size 200, not 28996"),
        ({"known": known | {"data": {"org/one": 300, "org/two": 1500}}}, "org/two: 240 pairs, not 1,500"),
    ):
        other = published_spaces(**{"checkpoint": None, "text": None, "find": find, "known": known} | options)  # type: ignore[arg-type]
        assert {cell["verdict"] for cell in other.cells} == {"no verdict"}
        assert reason in other.text
        assert not other.failed


def test_the_command(hub: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"{text} {number}" for number, text in enumerate(TEXTS * 32)]
    (hub / "some.txt").write_text("\n".join(lines), "utf-8")
    text = ("--text", str(hub / "some.txt"))
    assert not app(["reproduce", "spaces", "--checkpoint", "org/small", *text, "--json"], standalone_mode=False)
    found = json.loads(capsys.readouterr().out)["cells"]
    assert [(cell["metric"], cell["layer"], cell["published"], cell["verdict"]) for cell in found] == [
        (name, layer, curve["values"][layer], "no verdict")
        for name, curve in PUBLISHED["curves"].items()
        for layer in range(3)
    ]
    with pytest.raises(InputError, match=r"bert-base-cased.*set ISOSCOPE_HUB to a folder that holds google-bert"):
        app(["reproduce", "spaces", *text], standalone_mode=False)
    with pytest.raises(InputError, match=r"set ISOSCOPE_HUB to a folder that holds mteb/sts12-sts/"):
        app(["reproduce", "spaces", "--checkpoint", "org/small"], standalone_mode=False)
    with pytest.raises(InputError, match="options of: isoscope reproduce spaces"):
        app(["reproduce", "fusion", *text], standalone_mode=False)
    monkeypatch.setattr("isoscope.studies.spaces.published_curve.published_spaces.__kwdefaults__", {"known": SMALL})
    assert app(["reproduce", "spaces"], standalone_mode=False) == 1
