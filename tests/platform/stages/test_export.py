"""An exported model computes the same bits where isoscope cannot be imported, and is plain only where that is exact."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from huggingface_hub import ModelCard
from torch import nn

from fusions import CONV2D, FFT, FUSIONS, make
from isoscope import models, plugins
from isoscope.base.errors import InputError, RunError
from isoscope.data import tokens
from isoscope.geometry.linear_maps import rotation
from isoscope.models import language_models, loaded_alone
from isoscope.models.exported import Checked, Exported, check, compared, read_model, write
from isoscope.models.hybrid import hybrid
from isoscope.models.loading import quiet
from isoscope.platform.cli import app
from isoscope.platform.runs.card import auto_class
from isoscope.platform.stages.export import export

SENTENCES = ["the film was good and slow", "a dull plot", "very fine films, not bad"]
HEADS = ("Model", "ForSequenceClassification", "ForTokenClassification", "ForMaskedLM", "ForCausalLM")
IDENTITY = FUSIONS["conv2d-identity"]
SPECIALS = language_models.Specials(0, 2, 3)
TRANSLATES: dict[str, Any] = {
    "family": "bert", "layers": 4, "hidden_size": 16, "heads": 2, "intermediate_size": 32, "activation": "relu",
    "norm": "post", "positions": "learned", "max_positions": 24, "dropout": 0.1, "attention_dropout": 0.0,
    "init_std": 0.5, "initializer_range": 0.3, "vocab_size": 50, "specials": SPECIALS, "seed": 0,
}  # fmt: skip


def encodes(family: str, head: str, fusion: dict[str, Any], **changes: Any) -> Any:
    """An encoder of the architecture Fusion{family}{head}, with padding and sizes as the tokenizer's."""
    settings = {"pad_token_id": 0, "is_decoder": head == "ForCausalLM"} | changes
    return make(getattr(models, f"Fusion{family}{head}"), fusion, **settings)


def translates(fusion: dict[str, Any], tied: bool = True, **changes: Any) -> Any:
    return language_models.from_scratch("translation", fusion=fusion, tied=tied, **TRANSLATES | changes).eval()


def joined() -> Any:
    """A hybrid with a rotation as its map."""
    encoder, writes = encodes("Bert", "Model", CONV2D), translates({"kind": "additive"})
    return hybrid(encoder, writes, *rotation(16, degrees=90.0, seed=0))


def closed(model: Any) -> Any:
    """Close the gate of each fusion."""
    for name, value in model.named_parameters():
        if name.endswith("fusion.gate"):
            nn.init.zeros_(value)
    return model


PLAIN: dict[str, Callable[[], Any]] = {
    **{f"{family}{head}": (lambda f=family, h=head: encodes(f, h, {"kind": "additive"}))
       for family in ("Bert", "Roberta") for head in HEADS if family + head != "RobertaForCausalLM"},
    "sinusoidal": lambda: encodes("Bert", "ForMaskedLM", {"kind": "additive"}, positions="sinusoidal"),
    "untied": lambda: encodes("Bert", "ForMaskedLM", {"kind": "additive"}, tie_word_embeddings=False),
    "translation": lambda: translates({"kind": "additive"}),
    "translation, untied": lambda: translates({"kind": "additive"}, tied=False),
    "closed fft": lambda: closed(encodes("Bert", "ForSequenceClassification", FUSIONS["fft-residual"])),
    "closed conv2d": lambda: closed(encodes("Bert", "ForCausalLM", FUSIONS["conv2d-residual"])),
    "gate 0, no token types": lambda: closed(encodes("Bert", "ForMaskedLM", CONV2D | {"gate": 0.0})),
    "identity": lambda: encodes("Roberta", "ForMaskedLM", IDENTITY),
    "identity of three tables": lambda: encodes(
        "Bert", "ForCausalLM", IDENTITY | {"sources": ["word", "position", "token_type"], "token_type": "ignore"}
    ),
}  # fmt: skip
CODE: dict[str, Callable[[], Any]] = {
    **{f"Bert, {name}": (lambda one=fusion: encodes("Bert", "ForSequenceClassification", one))
       for name, fusion in FUSIONS.items() if name not in ("additive", "conv2d-identity")},
    **{f"{family}{head}, {fusion['kind']}": (lambda f=family, h=head, one=fusion: encodes(f, h, one))
       for family in ("Bert", "Roberta") for head in HEADS for fusion in (CONV2D, FFT)},
    "Roberta, causal": lambda: encodes("Roberta", "ForCausalLM", {"kind": "additive"}),
    "pre-norm": lambda: encodes("Bert", "ForMaskedLM", {"kind": "additive"}, norm="pre"),
    "translation, conv2d": lambda: translates(CONV2D),
    "translation, fft, pre-norm": lambda: translates(FFT, tied=False, norm="pre"),
    "hybrid": joined,
    "vocab.txt": lambda: encodes("Roberta", "ForMaskedLM", CONV2D),
    "additive, --code": lambda: encodes("Bert", "ForMaskedLM", {"kind": "additive"}),
}  # fmt: skip


def given(model: Any, source: Path, out: Path, form: Literal["code"] | None) -> tuple[Exported, list[str]]:
    return write(model, source, out, loader=auto_class(type(model).__name__), form=form)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("export")


@pytest.fixture(scope="module")
def saved(folder: Path) -> Callable[[Any], Path]:
    """Return a function that writes a model as training does: weights, configuration, tokenizer."""
    tokens.train_wordpiece(SENTENCES, folder / "tokenizer", vocab_size=50, lowercase=True)

    def save(model: Any) -> Path:
        place = folder / f"checkpoint-{len(list(folder.iterdir()))}"
        with quiet():
            model.save_pretrained(place)
        tokens.copy(folder / "tokenizer", place, max_length=20)
        return place

    return save


@pytest.fixture(scope="module")
def exports(folder: Path, saved: Callable[[Any], Path]) -> dict[str, tuple[Exported, list[str], Checked]]:
    """Export each model from its checkpoint, and load all in one process without isoscope."""
    written = {}
    for number, (name, build) in enumerate((PLAIN | CODE).items()):
        source, out = saved(build()), folder / f"out-{number}"
        if name == "vocab.txt":  # the tokenizer of a published checkpoint, without the name of its class
            words = tokens.load(source).backend.get_vocab()
            (source / "vocab.txt").write_text("\n".join(sorted(words, key=words.__getitem__)) + "\n")
            (source / "tokenizer_config.json").write_text('{"do_lower_case": true, "model_max_length": 20}\n')
            (source / "tokenizer.json").unlink()
        out.mkdir()
        written[name] = given(read_model(source), source, out, form="code" if "--code" in name else None)
    checks = check([one for one, _ in written.values()])
    return {name: (*found, checked) for (name, found), checked in zip(written.items(), checks, strict=True)}


@pytest.mark.parametrize("name", PLAIN)
def test_an_addition_is_exported_as_a_plain_model(exports: dict[str, Any], name: str) -> None:
    one, _, checked = exports[name]
    assert not one.code
    assert not list(one.folder.glob("*.py"))
    settings = json.loads((one.folder / "config.json").read_text())
    assert settings["model_type"] in ("bert", "roberta", "encoder-decoder")
    assert "Fusion" not in settings["architectures"][0]
    assert "fusion" not in json.dumps(settings)
    in_another_order = name.startswith("identity") or name == "gate 0, no token types"
    assert checked.difference <= (1e-5 if in_another_order else 0.0)


@pytest.mark.parametrize("name", CODE)
def test_other_fusions_are_exported_with_their_code(exports: dict[str, Any], name: str) -> None:
    one, _, checked = exports[name]
    assert one.code
    assert checked.difference == 0.0
    assert checked.values > 0
    texts = [file.read_text() for file in one.folder.glob("*.py")]
    assert len(texts) > 10
    assert not re.findall(r"^\s*(?:from|import) isoscope", "".join(texts), re.MULTILINE)


@pytest.mark.parametrize("name", CODE)
def test_isoscope_reads_an_export_with_its_own_classes(exports: dict[str, Any], name: str, tmp_path: Path) -> None:
    one, _, _ = exports[name]
    folder, mark = tmp_path / "given", tmp_path / "mark"
    shutil.copytree(one.folder, folder)
    for file in folder.glob("*.py"):
        file.write_text(f"open({str(mark)!r}, 'w')\n")
    read = read_model(folder)
    assert type(read) is type(one.model)
    for key, values in one.model.state_dict().items():
        assert torch.equal(read.state_dict()[key], values)
    assert not mark.exists()
    assert len({file.stat().st_mode for file in (folder / "config.json", folder / "model.safetensors")}) == 1


def test_the_reason_is_named(exports: dict[str, Any]) -> None:
    for name, words in {
        "BertModel": "the fusion is additive",
        "translation": "the fusion is additive",
        "closed fft": "the gate of the fusion 'fft' is closed: its value is 0",
        "identity": "the kernel of the fusion 'conv2d' is the identity",
        "Bert, conv2d": "the fusion 'conv2d' is not an addition",
        "Bert, fft-residual": "the fusion 'fft' is not an addition, its gate is 0.7",
        "Bert, fft-learned-positions": "positions are computed from angles",
        "Roberta, causal": "counts positions from 0",
        "pre-norm": "norm 'pre'",
        "hybrid": "a hybrid maps its encoder's states",
    }.items():
        (reason,) = exports[name][1]
        assert words in reason


@pytest.mark.parametrize("what", ["weight", "bias"])
def test_a_touched_kernel_is_not_exported_as_plain(saved: Callable[[Any], Path], tmp_path: Path, what: str) -> None:
    """The smallest change of one value, of which the outputs show nothing."""
    model = encodes("Bert", "ForSequenceClassification", IDENTITY | {"bias": True})
    value = getattr(model.bert.embeddings.fusion, what).data.view(-1)
    value[0] = torch.nextafter(value[0], torch.tensor(2.0))
    with pytest.raises(InputError, match=r"^--plain: the fusion 'conv2d' is not an addition; use --code"):
        export(saved(model), tmp_path / "out", form="plain")
    assert not list(tmp_path.iterdir())


def test_the_check_finds_other_weights_and_a_need_of_isoscope(saved: Callable[[Any], Path], tmp_path: Path) -> None:
    """Negative controls of the check itself."""
    source = saved(encodes("Bert", "ForSequenceClassification", CONV2D))
    model = read_model(source)
    one, _ = given(model, source, tmp_path, form=None)
    ids = torch.tensor([tokens.load(tmp_path).backend.encode(SENTENCES[0]).ids])
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    found = inputs | loaded_alone.outputs(model, inputs)
    assert compared(one, SENTENCES[:1], found).difference == 0.0
    with torch.no_grad():
        model.classifier.bias[0] += 1e-4
    with pytest.raises(
        RunError, match=r"nothing is written: without isoscope, logits differs by (0\.0001|9\.99|1e-04)"
    ):
        compared(one, SENTENCES[:1], found)
    with pytest.raises(RunError, match="transformers' tokenizer gives other input_ids than the run's"):
        compared(one, SENTENCES[:1], found | {"input_ids": ids + 1})
    (tmp_path / "base_errors.py").write_text("from isoscope.base.errors import InputError, brief, said\n")
    with pytest.raises(RunError, match=r"does not load without isoscope: .*isoscope"):
        check([one])


def test_what_cannot_be_exported_is_refused(
    exports: dict[str, Any], saved: Callable[[Any], Path], tmp_path: Path
) -> None:
    source = saved(encodes("Bert", "ForSequenceClassification", {"kind": "additive"}))
    full = tmp_path / "full"
    full.mkdir()
    (full / "file").touch()
    run = tmp_path / "run/checkpoints/epoch-1"
    run.mkdir(parents=True)
    plain = tmp_path / "plain"
    shutil.copytree(exports["BertForSequenceClassification"][0].folder, plain)
    settings = json.loads((plain / "config.json").read_text("utf-8"))
    (plain / "config.json").write_text(json.dumps(settings | {"architectures": ["BertForPreTraining"]}), "utf-8")
    weights = saved(encodes("Bert", "ForSequenceClassification", {"kind": "additive"}))
    for file in weights.glob("token*"):
        file.unlink()
    for checkpoint, out, words in (
        (source, full, f"^OUT {full}: holds something already"),
        (source, full / "file", "holds something already"),
        (source, Path(), r"^OUT \.: give the name of a new folder"),
        (source, tmp_path / "out/..", "give the name of a new folder"),
        (tmp_path / "none", tmp_path / "out", f"^checkpoint {tmp_path}/none: no config.json"),
        (tmp_path / "run", tmp_path / "out", "is the output of a run; give a checkpoint in it, such as .*epoch-1$"),
        (plain, tmp_path / "out", "BertForPreTraining is no architecture of isoscope; it needs no export"),
        (weights, tmp_path / "out", "no tokenizer"),
    ):
        with pytest.raises(InputError, match=words):
            export(checkpoint, out, form=None)
        assert not (tmp_path / "out").exists()
    assert [path.name for path in full.iterdir()] == ["file"]


def test_a_fusion_of_a_plugin_is_refused(
    saved: Callable[[Any], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Own(nn.Module):
        def forward(self, word: Any, position: Any, token_type: Any, mask: Any) -> Any:
            return word

    monkeypatch.setattr(plugins.FUSIONS, "own", {})
    plugins.fusion("own")(lambda hidden_size: Own())
    model = models.FusionBertModel(make(models.FusionBertModel, {"kind": "additive"}).config)
    source = saved(model)
    settings = json.loads((source / "config.json").read_text()) | {"fusion": {"kind": "own"}}
    (source / "config.json").write_text(json.dumps(settings))
    with pytest.raises(InputError, match="the fusion 'own' is from a plugin, and only built-in fusions are exported"):
        export(source, tmp_path / "out", form=None)


def test_the_command(saved: Callable[[Any], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = saved(encodes("Bert", "ForSequenceClassification", CONV2D))
    (source / "README.md").write_text("# Title\n\n## Load\n\n## Training\n\n| seed | 7 |\n")
    app(["export", str(source), str(tmp_path / "out"), "--json"], standalone_mode=False)
    said = json.loads(capsys.readouterr().out)
    assert (said["form"], said["largest_difference"], said["outputs"]) == ("code", 0.0, ["logits"])
    assert said["loader"] == "AutoModelForSequenceClassification"
    card = ModelCard.load(tmp_path / "out/README.md")
    assert card.data.to_dict() == {
        "library_name": "transformers",
        "pipeline_tag": "text-classification",
        "tags": ["isoscope"],
    }
    assert 'AutoModelForSequenceClassification.from_pretrained("FOLDER", trust_remote_code=True)' in card.text
    assert card.text.endswith("## Training\n\n| seed | 7 |\n")
    with pytest.raises(InputError, match="--plain --code: give one of them"):
        app(["export", str(source), str(tmp_path / "other"), "--plain", "--code"], standalone_mode=False)
