"""Hostile files and names: one clear line, nothing executed, nothing written outside the project."""

import hashlib
import json
import os
import pickle  # noqa: TID251 - the attacker's
import re
import zipfile
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from isoscope.base.errors import InputError
from isoscope.base.paths import checked_name, trained
from isoscope.models import build
from isoscope.platform.results.study_tables import read_tables, write_tables
from isoscope.platform.runs.record import Record
from isoscope.training.progress import InterruptedRunError
from isoscope.training.resumption import load_state
from pipeline_project import Project, wait_for
from report_material import make as make_material
from training_runs import make_loop

TRAIN = ("train", "fusion", "additive", "--seed", "0")
WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "ash", "birch", "gold", "iron", "before", "the", "now")


class Payload:
    """An object whose unpickling leaves a mark in `folder`."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (f"touch '{self.mark}'",)


def pickled(mark: Path) -> bytes:
    return pickle.dumps(Payload(mark))


def test_the_payload_would_work(tmp_path: Path) -> None:
    """The negative control: unpickling these bytes executes them."""
    mark = tmp_path / "mark"
    pickle.loads(pickled(mark))
    assert mark.exists()


def outside(folder: Path) -> set[tuple[str, int]]:
    """Every file of a folder with its time of change."""
    return {(str(path), path.lstat().st_mtime_ns) for path in folder.rglob("*") if not path.is_dir()}


def refused(project: Project, *command: str, code: int = 2, **environment: str) -> str:
    """Return the one-line error of a command without a mirror, since a slow MLflow would add a message."""
    done = project.isoscope(*command, code=code, ISOSCOPE_FOLLOWED="1", **environment)
    assert done.err.count("\n") == 1, done.err
    (line,) = done.err.splitlines()
    assert line.startswith("isoscope: ")
    return line


@pytest.fixture
def hub(tmp_path: Path) -> Path:
    """A folder of checkpoints with a valid checkpoint, `org/sound`."""
    folder = tmp_path / "hub" / "org" / "sound"
    model = build.from_scratch(
        family="bert", fusion={"kind": "additive"}, vocab_size=len(WORDS), labels=["a", "b"], pad_id=0, seed=0,
        layers=1, hidden_size=16, heads=2, intermediate_size=32, max_positions=16, dropout=0.1, attention_dropout=0.1,
        init_std=0.02, initializer_range=0.02, activation="gelu", norm="post", positions="learned",
    )  # fmt: skip
    model.save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    plain = {key: value for key, value in config.items() if key not in ("fusion", "init_std")}
    plain |= {"model_type": "bert", "architectures": ["BertModel"]}
    (folder / "config.json").write_text(json.dumps(plain))
    weights = load_file(folder / "model.safetensors")
    encoder = {name.removeprefix("bert."): value for name, value in weights.items() if name.startswith("bert.")}
    save_file(encoder, folder / "model.safetensors", {"format": "pt"})
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    (folder / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": True}))
    return tmp_path / "hub"


def pretrained(project: Project) -> None:
    """Let the study start from `org/sound`."""
    text = project.text("params.yaml")
    begin, end = text.index("    kind: scratch"), text.index("  max_length:")
    encoder = "    kind: pretrained\n    checkpoint: org/sound\n    revision: main\n"
    (project.folder / "params.yaml").write_text(text[:begin] + encoder + text[end:], "utf-8")


PICKLES = (
    "pytorch_model.bin", "optimizer.pt", "scheduler.pt", "rng_state.pth", "training_args.bin", "model.pkl",
    "model.ckpt", "model.pt", "tokenizer.pkl", "state.joblib", "adapter_model.bin", "data.npy",
)  # fmt: skip


def test_pickles_beside_the_weights_are_never_read(project: Project, hub: Path, tmp_path: Path) -> None:
    pretrained(project)
    mark = tmp_path / "mark"
    for name in PICKLES:
        (hub / "org/sound" / name).write_bytes(pickled(mark))
    before = outside(hub)
    project.isoscope(*TRAIN, ISOSCOPE_HUB=str(hub))
    assert not mark.exists()
    assert outside(hub) == before


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.safetensors", "torch zip"])
def test_weights_that_are_a_pickle_are_refused(project: Project, hub: Path, tmp_path: Path, name: str) -> None:
    pretrained(project)
    mark, folder = tmp_path / "mark", hub / "org/sound"
    (folder / "model.safetensors").unlink()
    if name == "torch zip":
        with zipfile.ZipFile(folder / "pytorch_model.bin", "w") as archive:
            archive.writestr("archive/data.pkl", pickled(mark))
            archive.writestr("archive/version", "3")
    else:
        (folder / name).write_bytes(pickled(mark))
    line = refused(project, *TRAIN, ISOSCOPE_HUB=str(hub))
    assert "org/sound" in line
    assert not mark.exists()


@pytest.mark.parametrize("form", ["pickle", "torch"])
def test_convert_runs_no_code_of_a_pickle(project: Project, hub: Path, tmp_path: Path, form: str) -> None:
    mark, folder = tmp_path / "mark", hub / "org/sound"
    (folder / "model.safetensors").unlink()
    if form == "pickle":
        (folder / "pytorch_model.bin").write_bytes(pickled(mark))
    else:
        torch.save({"weight": Payload(mark)}, folder / "pytorch_model.bin")  # noqa: TID251 - the attacker's
    before = outside(hub)
    line = refused(project, "convert", str(folder), "out")
    assert "pytorch_model.bin: not plain weights" in line
    assert not mark.exists()
    assert not (project.folder / "out").exists()
    assert outside(hub) == before


@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json"])
def test_code_that_a_checkpoint_brings_is_refused(project: Project, hub: Path, tmp_path: Path, file: str) -> None:
    pretrained(project)
    mark, folder = tmp_path / "mark", hub / "org/sound"
    settings = json.loads((folder / file).read_text())
    classes = {"AutoConfig": "evil.Evil", "AutoModel": "evil.Evil", "AutoTokenizer": ["evil.Evil", None]}
    (folder / file).write_text(json.dumps(settings | {"auto_map": classes, "trust_remote_code": True}))
    (folder / "evil.py").write_text(f"open({str(mark)!r}, 'w')\nclass Evil: ...\n")
    line = refused(project, *TRAIN, ISOSCOPE_HUB=str(hub))
    assert file in line
    assert "code of its own" in line
    assert not mark.exists()


@pytest.mark.parametrize("name", ["model", "optimizer", "rng"])
def test_a_state_that_is_a_pickle_is_damage(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Even with a manifest that vouches for it."""
    stop = iter([False] * 6 + [True] * 99)
    loop = make_loop(tmp_path, checkpoint_every=3, stop=lambda: next(stop))
    with pytest.raises(InterruptedRunError):
        loop.fit()
    newest = sorted((tmp_path / "states").glob("step-*"))[-1]
    mark, file = tmp_path / "mark", newest / f"{name}.safetensors"
    file.write_bytes(pickled(mark))
    manifest = json.loads((newest / "manifest.json").read_text())
    manifest["files"][file.name] = {"sha256": hashlib.sha256(file.read_bytes()).hexdigest(), "size": len(pickled(mark))}
    (newest / "manifest.json").write_text(json.dumps(manifest))
    state = load_state(tmp_path / "states")
    assert state is not None
    assert state.progress["step"] < 7
    assert "falling back" in capsys.readouterr().err
    assert not mark.exists()


EXCEPTION = Path("data/pickled_weights.py")
"""The file that reads pickles, for `isoscope convert`: in a confined process, and tensors alone."""


def test_torch_loads_nothing_here() -> None:
    """No file of the package calls an unpickling function but `EXCEPTION`, which calls it in one way.

    The linter forbids the imports, this test the calls.
    """
    for path in (Path(build.__file__).parents[1]).rglob("*.py"):
        text = path.read_text("utf-8")
        if path.parts[-2:] == EXCEPTION.parts:
            load = 'torch.load(file, map_location="cpu", weights_only=True)'
            assert text.count(load) == text.count("torch.load(file") == 1
            assert text.index("confine(folder)") < text.index(load)
            text = text.replace(load, "").replace("`torch.load(weights_only=True)`", "")
        text = re.sub(r"model\.eval\(|\.eval\(\)|literal_eval\(|[Rr]etrieval\(", "", text)
        for word in ("torch.load(", "pickle.load", "joblib.load", "allow_pickle=True", "eval("):
            assert word not in text, (path, word)


NAMES = [
    "../up",
    "/etc/passwd",
    "a/b",
    "..",
    ".",
    "",
    "a\0b",
    "a\nb",
    "~root",
    "a b",
    "-rf",
    "$(touch x)",
    "..\\up",
    "ö",
]


@pytest.mark.parametrize("name", NAMES)
def test_names_that_lead_elsewhere_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError):
        checked_name("arm", name)
    with pytest.raises(InputError):
        trained("fusion", name, 0)
    if name not in ("a b", "-rf", "$(touch x)", "..\\up", "ö", "~root", "a\nb", "a\0b"):
        with Record(tmp_path / "r.jsonl") as record, pytest.raises(InputError):
            record.artifact(tmp_path / "x", name=f"{name}/x" if name in ("..", ".", "") else name + "/..")


@pytest.mark.parametrize("name", ["../up", "/etc/passwd", "a/b", "..", "~root", "$(touch x)"])
@pytest.mark.parametrize(
    "where",
    ["studies.fusion.axes.fusion=[{}]", "studies.fusion.task={}", "tasks=[{}]"],
)
def test_hostile_names_in_params_are_refused(project: Project, where: str, name: str) -> None:
    around = outside(project.folder.parent)
    refused(project, "repro", "-S", where.format(json.dumps(name)))
    assert outside(project.folder.parent) - around == set()


@pytest.mark.parametrize("path", ["../order.jsonl", "/etc/passwd", "texts/../../order.jsonl"])
def test_data_from_outside_are_refused(project: Project, path: str) -> None:
    (project.folder.parent / "order.jsonl").write_text(project.text("texts/order.jsonl"))
    project.edit("variants/task/tiny.yaml", "path: texts/order.jsonl", f"path: {path}")
    assert "is outside the project" in refused(project, "prepare", "tiny")


@pytest.mark.parametrize("path", ["../evil.py", "plugins/../../evil.py"])
def test_plugins_from_outside_are_refused(project: Project, tmp_path: Path, path: str) -> None:
    mark = tmp_path / "mark"
    (project.folder.parent / "evil.py").write_text(f"open({str(mark)!r}, 'w')\n")
    assert "is outside the project" in refused(project, *TRAIN, "-S", f"plugins=[{path}]")
    assert not mark.exists()


LEAVES = """import sys

from isoscope.plugins import fusion


@fusion("leaves")
def leaves(hidden_size: int):
    sys.exit(0)
"""


def test_a_plugin_that_ends_the_program_is_a_failure_with_its_name(project: Project) -> None:
    (project.folder / "plugins/leaves.py").write_text(LEAVES)
    (project.folder / "variants/fusion/leaves.yaml").write_text("model:\n  fusion:\n    kind: leaves\n")
    axes = ("-S", "studies.fusion.axes.fusion=[additive, leaves]", "--plugin", "plugins/leaves.py")
    line = refused(project, "train", "fusion", "leaves", "--seed", "0", *axes, code=1)
    assert line.endswith("plugins/leaves.py, line 8: it ends the program (sys.exit(0)); raise an error instead")
    ((_, record),) = project.records().items()
    assert record.status == "FAILED"
    assert "leaves.py, line 8" in str(record.end.reason)
    (project.folder / "plugins/leaves.py").write_text(LEAVES.replace("import sys", "import sys; sys.exit(0)"))
    assert "leaves.py, line 1: it ends the program" in refused(
        project, "train", "fusion", "leaves", "--seed", "0", *axes
    )


def link_file(project: Project, name: str, target: Path) -> None:
    place = project.folder / name
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.is_dir() and not place.is_symlink():
        project.run("rm", "-r", name)
    place.unlink(missing_ok=True)
    place.symlink_to(target)


COMMANDS = (TRAIN, ("prepare", "tiny"), ("repro",), ("gc",))


LINKS = (
    "texts/order.jsonl", "plugins/evil.py", "variants/task/tiny.yaml", "params.yaml", "models", "models/fusion",
    "data/processed/tiny", "data/processed/tiny/train.parquet", "reports", ".isoscope", ".isoscope/runs",
    ".isoscope/runs/abc", ".isoscope/runs/abc/lease.json", ".isoscope/records/abc.jsonl", "mlflow.db", "mlartifacts",
)  # fmt: skip


@pytest.mark.parametrize("name, command", [
    pytest.param(name, command, marks=() if place % len(COMMANDS) == at else pytest.mark.exhaustive)
    for place, name in enumerate(LINKS)
    for at, command in enumerate(COMMANDS)
])  # fmt: skip
def test_links_that_lead_outside_are_refused(
    project: Project, tmp_path: Path, name: str, command: tuple[str, ...]
) -> None:
    elsewhere = tmp_path / "elsewhere"
    here = project.folder / name
    if here.is_dir() or "." not in Path(name).name or name == ".isoscope":
        elsewhere.mkdir()
        (elsewhere / "precious").write_text("mine")
    else:
        elsewhere.write_bytes(here.read_bytes() if here.is_file() else b"")
    link_file(project, name, elsewhere)
    before = outside(elsewhere)
    line = refused(project, *command)
    assert f"{name}: a link to {elsewhere}" in line
    assert outside(elsewhere) == before


def test_a_link_to_itself_is_refused(project: Project) -> None:
    link_file(project, "texts/loop", project.folder / "texts/loop")
    assert "a broken link" in refused(project, "check")


def test_links_within_the_project_and_to_dvcs_cache_are_fine(project: Project, tmp_path: Path) -> None:
    cache = tmp_path / "big disk" / "cache"
    project.dvc("cache", "dir", "--local", str(cache))
    project.dvc("config", "--local", "cache.type", "symlink")
    done = project.isoscope("repro")
    assert len(done.ran) == 4
    linked = [path for path in (project.folder / "models").rglob("*") if path.is_symlink()]
    assert any(path.resolve().is_relative_to(cache) for path in linked)
    link_file(project, "texts/same.jsonl", project.folder / "texts/order.jsonl")
    assert project.isoscope("repro").ran[:1] == ["prepare@tiny"]  # texts changed, for DVC


@pytest.mark.parametrize(
    "tag", ["!!python/object/apply:os.system ['touch {}']", "!!python/name:os.system", "!!python/object/new:list [[]]"]
)
@pytest.mark.parametrize("file", ["params.yaml", "variants/fusion/additive.yaml"])
def test_yaml_tags_build_nothing(project: Project, tmp_path: Path, file: str, tag: str) -> None:
    mark = tmp_path / "mark"
    text = project.text(file)
    (project.folder / file).write_text(f"{text}\nextra: {tag.format(mark)}\n", "utf-8")
    line = refused(project, *TRAIN)
    assert file in line
    assert not mark.exists()


FORMULAS = ('=HYPERLINK("http://evil")', "+1+1", "-2+3", "@SUM(1)", "'=1", "plain")


def test_no_exported_cell_is_a_formula(tmp_path: Path) -> None:
    made = make_material(tmp_path / "material", arms={"additive": 0.8}, seeds=1, labels=FORMULAS)
    (tables,) = made.studies
    write_tables(tmp_path, tables)
    cells = [
        cell.strip('"')
        for file in tmp_path.glob("*.csv")
        for line in file.read_text("utf-8").splitlines()[1:]
        for cell in line.split(",")
    ]
    text = [cell for cell in cells if cell and not _number(cell)]
    assert not [cell for cell in text if cell[0] in "=+-@\t\r"]
    again = read_tables(tmp_path)
    assert (
        set(again.by_name["confusion"]["actual"])
        == set(tables.by_name["confusion"]["actual"])
        >= {FORMULAS[0], FORMULAS[4]}
    )


def _number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def test_a_secret_in_params_or_sources_is_stored_nowhere(project: Project) -> None:
    secret = "hunter" + "22-" * 5
    token = "hf_" + "aB3" * 12
    (project.folder / "plugins/mine.py").write_text(f"TOKEN = '{token}'\npassword = '{secret}'\n")
    project.edit("variants/task/tiny.yaml", "licence: CC0-1.0", f"licence: 'https://me:{secret}@host/licence'")
    project.isoscope("prepare", "tiny")
    process = project.start(*TRAIN)
    wait_for(lambda: process.poll() is not None)
    process.communicate()
    project.isoscope("mirror")  # what a loaded machine may have left
    places = (".isoscope", "models", "data")
    stored = [path for name in places for path in (project.folder / name).rglob("*") if path.is_file()]
    assert any(path.suffix == ".patch" for path in stored)
    for path in (*stored, project.folder / "mlflow.db"):
        assert secret.encode() not in path.read_bytes(), path
        assert token.encode() not in path.read_bytes(), path
