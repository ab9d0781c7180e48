"""Laws of masked, causal and translation objectives: what is predicted, what may be seen, and how losses add up."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from accelerate import Accelerator
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, AutoModelForSeq2SeqLM

from example_objectives import example
from fusions import FUSIONS
from isoscope.base.errors import InputError
from isoscope.objectives import Place, Task
from isoscope.objectives.causal import Causal
from isoscope.objectives.language import LanguageModel
from isoscope.objectives.masked import Masked
from isoscope.objectives.translation import Translation
from isoscope.training.evaluation import evaluate
from isoscope.training.ranks import Ranks
from language_material import pairs
from training_runs import prepare

MASKED = {"side": "source", "rate": 0.15, "masked": 0.8, "random": 0.1, "tied": True}
CAUSAL = {"side": "source", "share": 1.0, "tied": True}
TRANSLATION = {"beams": 1, "sentences": None, "tied": True, "tokenize": "13a"}
KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "masked": (Masked, MASKED),
    "causal": (Causal, CAUSAL),
    "causal-part": (Causal, CAUSAL | {"share": 0.15, "side": "target"}),
    "translation": (Translation, TRANSLATION),
    "denoising": (example("denoising"), {"rate": 0.3, "tied": True}),
    "prefix": (example("prefix"), {"tied": True}),
}
AUTO = {"masked": AutoModelForMaskedLM, "causal": AutoModelForCausalLM, "translation": AutoModelForSeq2SeqLM}
ENCODER = {
    "kind": "scratch", "family": "bert", "layers": 2, "hidden_size": 16, "heads": 2, "intermediate_size": 32,
    "activation": "relu", "norm": "post", "positions": "learned", "max_positions": 16, "dropout": 0.1,
    "attention_dropout": 0.0, "init_std": 0.5, "initializer_range": 0.3, "tokenizer": {"kind": "task"},
}  # fmt: skip
ROWS = np.array([3, 0, 7, 5])


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    folder = tmp_path_factory.mktemp("task")
    return Task(folder, prepare(folder, pairs, rows=24), folder / "tokenizer", 12, 1.0, 8, 4, 0)


def made(task: Task, name: str, **changes: Any) -> LanguageModel:
    kind, options = KINDS[name]
    found: LanguageModel = kind(task, **options | changes)
    return found


def model_of(objective: LanguageModel, fusion: str = "additive", **changes: Any) -> Any:
    return objective.build({"encoder": ENCODER | changes, "fusion": FUSIONS[fusion]}, None).eval()


def tensors(objective: LanguageModel, rows: np.ndarray, epoch: int | None = 1) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(one) for name, one in objective.batch("train", rows, epoch).items()}


@pytest.mark.parametrize("name", KINDS)
def test_the_weight_is_known_before_the_forward_pass(task: Task, name: str) -> None:
    objective = made(task, name)
    model = model_of(objective)
    for epoch in (1, 2, None):
        found = objective.forward(model, tensors(objective, ROWS, epoch))
        assert objective.tally(found.tally.numpy()).tokens == objective.weight("train", ROWS, epoch) > 0
    again = objective.forward(model, tensors(objective, ROWS, None))
    other = objective.forward(model, tensors(objective, ROWS, None))
    assert again.loss == other.loss


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("fusion", ["additive", "conv2d", "fft"])
def test_padding_changes_no_loss(task: Task, name: str, fusion: str) -> None:
    """The summed loss of a batch is the sum over its rows alone, and the columns hold each row's share."""
    objective = made(task, name)
    model = model_of(objective, fusion)
    whole = objective.forward(model, tensors(objective, ROWS), columns=True)
    alone = [objective.forward(model, tensors(objective, ROWS[[place]])) for place in range(len(ROWS))]
    torch.testing.assert_close(whole.loss, sum(one.loss for one in alone), rtol=1e-5, atol=1e-4)
    expected = torch.stack([one.loss for one in alone]).double()
    torch.testing.assert_close(whole.columns["loss"], expected, rtol=1e-5, atol=1e-4)
    assert whole.columns["tokens"].tolist() == [int(one.tally[1]) for one in alone]
    assert int(whole.tally[2]) == whole.columns["right"].sum()


@pytest.mark.parametrize("fusion", ["additive", "conv2d", "fft", "fft-phase-complex", "fft-learned-positions"])
def test_a_causal_model_and_a_decoder_see_no_later_token(task: Task, fusion: str) -> None:
    for name, ids in (("causal", "input_ids"), ("translation", "decoder_input_ids")):
        objective = made(task, name)
        model = model_of(objective, fusion)
        batch = tensors(objective, np.array([0]))
        batch.pop("labels")
        changed = batch | {ids: batch[ids].clone()}
        changed[ids][0, -1] = 9
        before, after = (model(**one).logits for one in (batch, changed))
        assert torch.equal(before[:-1], after[:-1])
        assert not torch.equal(before[-1], after[-1])


def test_a_masked_model_sees_both_sides_and_not_the_masked_token(task: Task) -> None:
    objective = made(task, "masked", masked=1.0, random=0.0)
    batch = tensors(objective, np.array([0]))
    seen = batch["input_ids"].flatten()[batch["predicted"]]
    assert (seen == objective.texts.mask_id).all()
    assert (batch["labels"] != objective.texts.mask_id).all()
    model = model_of(objective)
    given = {name: one for name, one in batch.items() if name != "labels"}
    place = int(batch["predicted"][0])
    for other in (place - 1, place + 1):
        changed = given | {"input_ids": given["input_ids"].clone()}
        changed["input_ids"][0, other] = 11 if int(given["input_ids"][0, other]) != 11 else 12
        assert not torch.equal(model(**given).logits[0], model(**changed).logits[0])


def test_a_prefix_and_its_continuation_are_the_text(task: Task) -> None:
    objective = made(task, "prefix")
    ends = objective.texts.specials
    for epoch in (1, 2):
        batch = objective.batch("train", ROWS, epoch)
        for place, row in enumerate(ROWS):
            read, written = (
                one[one != ends.pad].tolist() for one in (batch["input_ids"][place], batch["decoder_input_ids"][place])
            )
            assert (read[0], read[-1], written[0]) == (ends.begin, ends.end, ends.begin)
            assert len(read) > 2
            whole = objective.texts.target["train"].ids[row].tolist()
            assert read[:-1] + written[1:] + [ends.end] == whole


@pytest.mark.parametrize("name", ["masked", "causal", "translation"])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_auto_classes_load_what_was_saved(task: Task, name: str, norm: str, tmp_path: Path) -> None:
    objective = made(task, name, tied=norm == "post")
    model = model_of(objective, "conv2d", norm=norm, positions="learned" if norm == "post" else "sinusoidal")
    model.save_pretrained(tmp_path)
    loaded = AUTO[objective.wiring].from_pretrained(tmp_path).eval()
    batch = tensors(objective, ROWS)
    batch.pop("labels")
    assert torch.equal(model(**batch).logits, loaded(**batch).logits)
    assert [key for key, _ in loaded.named_parameters()] == [key for key, _ in model.named_parameters()]


def test_wirings_differ_as_they_should(task: Task) -> None:
    """One table for source, target and predictions; the encoder-decoder has as many layers, and cross-attention."""
    models = {name: model_of(made(task, name)) for name in ("masked", "causal", "translation")}
    sizes = {name: sum(one.numel() for one in model.parameters()) for name, model in models.items()}
    assert sizes["masked"] == sizes["causal"]
    width, positions = 16, 16
    cross = 4 * (width * width + width) + 2 * width  # with its LayerNorm
    second = (positions + 2) * width + 2 * width  # the decoder's positions, token types and LayerNorm
    assert sizes["translation"] == sizes["causal"] + cross + second
    both = models["translation"]
    assert both.get_input_embeddings().weight is both.decoder.get_output_embeddings().weight
    assert both.decoder.get_input_embeddings().weight is both.get_input_embeddings().weight


def test_bad_models_are_refused_with_their_key(task: Task, tmp_path: Path) -> None:
    objective = made(task, "translation")
    with pytest.raises(InputError, match=r"^model\.encoder\.layers: 3 is odd"):
        model_of(objective, layers=3)
    with pytest.raises(InputError, match=r"^model\.encoder\.family: 'roberta'"):
        model_of(objective, family="roberta")
    with pytest.raises(InputError, match=r"^model\.encoder\.kind: 'pretrained'"):
        objective.build({"encoder": {"kind": "pretrained"}, "fusion": FUSIONS["additive"]}, tmp_path)
    single = task._replace(manifest={"labels": [], "columns": ["sentence"]})
    with pytest.raises(InputError, match=r"^objective\.kind: 'translation' needs a task of pairs"):
        made(single, "translation")
    with pytest.raises(InputError, match="another length in every epoch"):
        made(task, "prefix").owners("train", ROWS, Place(-1, "tokens"))


@pytest.mark.parametrize("fusion", ["additive", "conv2d"])
def test_one_beam_is_greedy_search(task: Task, fusion: str) -> None:
    """Step by step: the most probable next token, from the whole text so far."""
    objective = made(task, "translation")
    model = model_of(objective, fusion)
    batch = tensors(objective, ROWS)
    read = {name: batch[name] for name in ("input_ids", "attention_mask")}
    ends, most = objective.texts.specials, 9
    written = torch.full((len(ROWS), 1), ends.begin)
    done = torch.zeros(len(ROWS), dtype=torch.bool)
    while written.shape[1] < most and not done.all():
        following = model(**read, decoder_input_ids=written).logits[:, -1].argmax(-1)
        written = torch.cat([written, following.masked_fill(done, ends.pad)[:, None]], 1)
        done |= following == ends.end
    assert torch.equal(model.generate(**read, num_beams=1, do_sample=False, max_length=most), written)


def test_an_empty_text_has_nothing_to_mask(task: Task, tmp_path: Path) -> None:
    for split in ("train", "validation", "test"):
        pq.write_table(pa.table([["very good", ""]], ["sentence"]), tmp_path / f"{split}.parquet")
    empty = task._replace(folder=tmp_path)
    with pytest.raises(InputError, match=r"^train\.parquet, row 2: the text is empty"):
        made(empty, "masked")
    assert made(empty, "causal").weight("train", np.array([1]), 1) == 1  # its end
    many = ["very good"] * 40 + [""]
    for split, own in (("train", many), ("validation", many[:2]), ("test", many[:2])):
        pq.write_table(pa.table([own], ["sentence"]), tmp_path / f"{split}.parquet")
    named = set()
    for seed in range(8):  # half of the rows, with or without the last
        try:
            made(empty._replace(fraction=0.5, seed=seed), "masked")
        except InputError as error:
            named.add(str(error).partition(":")[0])
    assert named == {"train.parquet, row 41"}


@pytest.mark.parametrize("name", KINDS)
def test_tokens_read_are_those_of_the_batch(task: Task, name: str) -> None:
    objective = made(task, name)
    batch = objective.batch("train", ROWS, 1)
    assert objective.tokens("train", ROWS) == sum(one.sum() for key, one in batch.items() if key.endswith("mask"))


def test_finish_writes_every_row_and_scores_the_translations(task: Task, tmp_path: Path) -> None:
    objective = made(task, "translation")
    model = model_of(objective)
    ranks = Ranks(Accelerator(cpu=True))
    scored = evaluate(model, objective, "test", ranks, columns=True)
    found = objective.finish(model, scored, tmp_path)
    rows = pq.read_table(tmp_path / "predictions.parquet").to_pandas()
    assert rows["loss"].sum() / rows["tokens"].sum() == pytest.approx(scored.tally.metrics()["loss"], rel=1e-6)
    assert rows["tokens"].sum() == objective.weight("test", np.arange(20), None)
    assert found.keys() == {"bleu", "chrf", "copied"}
    assert pq.read_table(tmp_path / "translations.parquet").num_rows == 20
