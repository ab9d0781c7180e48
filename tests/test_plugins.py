"""A fusion and a data set from plugins: typed, hashed, and as small as promised."""

from pathlib import Path
from shutil import copy
from typing import Any

import pytest
import torch
from torch import nn
from transformers import BertConfig, BertModel

from isoscope import plugins
from isoscope.base.errors import InputError, RunError, plugins_named
from isoscope.base.workers import workers
from isoscope.data.task_files import _from_plugin
from isoscope.models import build, published
from isoscope.models.embeddings import build_fusion
from isoscope.platform.config.across_studies import check_all
from isoscope.platform.config.load import Configuration
from isoscope.platform.executor.child import FAILED, Child
from isoscope.states.measures import measure
from isoscope.training.penalised import WeightedPenalty, penalised
from training_runs import attributes

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "docs/examples"
RANGED = "model:\n  fusion:\n    kind: ranged\n    low: 2.0\n    high: 1.0\n"
PRODUCT = "model:\n  fusion:\n    kind: product\n    scale: {scale}\n"


@pytest.fixture(autouse=True)
def _forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plugin of one test must not exist in the next."""
    for registry in plugins.REGISTRIES:
        monkeypatch.setattr(registry, "own", {})


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for path in (ROOT / "params.yaml", *(ROOT / "variants").glob("*/*.yaml")):
        target = tmp_path / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(path.read_text())
    (tmp_path / "variants/fusion/product.yaml").write_text(PRODUCT.format(scale=50.0))
    return tmp_path


def load(project: Path, *overrides: str, plugin: Path = EXAMPLES / "product.py") -> Configuration:
    return Configuration(project, ["studies.fusion.axes.fusion=[additive, product]", *overrides], [plugin])


@pytest.mark.parametrize("name", ["product", "parity", "spread"])
def test_the_examples_are_as_short_as_promised_and_stand_in_the_docs(name: str) -> None:
    text = (EXAMPLES / f"{name}.py").read_text()
    assert len([line for line in text.splitlines() if line.strip()]) <= 20
    assert f"examples/{name}.py" in (ROOT / "docs/plugins.md").read_text()


def test_a_fusion_of_ones_own_is_typed_and_leaves_no_cache_beside_its_file(project: Path, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    own = Path(copy(EXAMPLES / "product.py", tmp_path / "own"))
    assert load(project, plugin=own).cell("fusion", "product").cell.model.fusion.scale == 50.0
    assert list((tmp_path / "own").iterdir()) == [own]


@pytest.mark.parametrize(
    "text, expected",
    [
        (
            PRODUCT.format(scale=-1.0),
            "product.yaml: model.fusion.scale: expected greater than 0, got -1.0",
        ),
        (PRODUCT.format(scale=1.0).replace("scale", "scal"), "model.fusion.scal: unknown key; did you mean 'scale'?"),
        (PRODUCT.format(scale=1.0).replace("product", "produc"), "kind 'produc' is unknown; did you mean 'product'?"),
        ("model:\n  fusion:\n    kind: product\n", "model.fusion.scale: missing"),
    ],
)
def test_its_options_are_checked_like_any_number(project: Path, text: str, expected: str) -> None:
    (project / "variants/fusion/product.yaml").write_text(text)
    with pytest.raises(InputError) as caught:
        check_all(load(project))
    assert expected in str(caught.value)


def test_without_the_plugin_its_kind_is_unknown(project: Path) -> None:
    with pytest.raises(InputError, match="kind 'product' is unknown"):
        check_all(Configuration(project, ["studies.fusion.axes.fusion=[product]"]))


def test_its_code_is_part_of_the_digest_of_the_arms_that_use_it_only(project: Path, tmp_path: Path) -> None:
    own = tmp_path / "own.py"
    source = (EXAMPLES / "product.py").read_text()
    own.write_text(source)
    configuration = load(project, plugin=own)
    (first,) = configuration.plugin_digests(configuration.cell("fusion", "product").cell).values()
    assert configuration.plugin_digests(configuration.cell("fusion", "additive").cell) == {}
    for text, same in ((source + "# a comment\n", True), (source.replace("* word", "* 2 * word"), False)):
        own.write_text(text)
        assert plugins.digest(own) == first, "that of the code that runs: later cells are forked from this process"
        plugins.FUSIONS.own.clear()
        plugins.load(own)
        assert (plugins.digest(own) == first) == same


@pytest.mark.parametrize(
    "text, expected",
    [
        (
            "from isoscope.plugins import fusion\n@fusion('fft')\ndef own(hidden_size): ...\n",
            "'fft' is a built-in kind",
        ),
        ("from isoscope.plugins import penalty\n@penalty('none')\ndef own(): ...\n", "'none' is a built-in kind"),
        ("from isoscope.plugins import dataset\n@dataset('local')\ndef own(): ...\n", "'local' is a built-in kind"),
        ("import nowhere_to_be_found\n", "ModuleNotFoundError"),
        ("def f(:\n", "SyntaxError"),
        ("import sys\n\nsys.exit(0)\n", "broken.py, line 3: it ends the program (sys.exit(0))"),
        ("raise SystemExit\n", "line 1: it ends the program (sys.exit(None))"),
        ("def f():\n    raise ValueError('two\\nlines')\nf()\n", "broken.py, line 2: ValueError: two lines"),
        ("from isoscope.plugins import fusion\n@fusion('x')\ndef x(hidden_size, scale): ...\n", "'scale' needs a type"),
    ],
)
def test_a_broken_file_is_one_line(project: Path, tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "broken.py").write_text(text)
    with pytest.raises(InputError) as caught:
        load(project, plugin=tmp_path / "broken.py")
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_name_in_two_files_is_refused(project: Path, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    for name in ("product", "product_old"):
        copy(EXAMPLES / "product.py", tmp_path / f"own/{name}.py")
    with pytest.raises(InputError, match=r"product_old\.py: 'product' is also in .*product\.py; give one of them"):
        load(project, plugin=tmp_path / "own")


@pytest.mark.parametrize("head", [b"\xef\xbb\xbf", b"# -*- coding: latin-1 -*-\n# \xe9\n"], ids=["mark", "latin-1"])
def test_any_encoding_of_a_python_file_will_do(project: Path, tmp_path: Path, head: bytes) -> None:
    own = tmp_path / "own.py"
    own.write_bytes(head + (EXAMPLES / "product.py").read_bytes())
    assert load(project, plugin=own)
    assert plugins.digest(own) == plugins.digest(EXAMPLES / "product.py")


def test_a_broken_kind_of_study_is_one_line(project: Path, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own/tables.py").touch()
    (tmp_path / "own/__init__.py").write_text("x = (\n")
    with pytest.raises(InputError, match=r"plugin .*own/__init__\.py.*SyntaxError"):
        load(project, plugin=tmp_path / "own")


def test_a_folder_gives_all_its_files_and_rules_between_options_hold(project: Path, tmp_path: Path) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    with pytest.raises(InputError, match=r"many: the folder has no Python file"):
        load(project, plugin=folder)
    copy(EXAMPLES / "product.py", folder)
    (folder / "ranged.py").write_text(
        "from isoscope.plugins import fusion\n\n\ndef check(o):\n    if o.low > o.high:\n"
        "        raise ValueError(f'low {o.low} is above high {o.high}')\n\n\n"
        "@fusion('ranged', check=check)\ndef ranged(hidden_size: int, low: float, high: float): ...\n"
    )
    axes = "studies.fusion.axes.fusion=[product, ranged]"
    (project / "variants/fusion/ranged.yaml").write_text(RANGED)
    found = Configuration(project, [axes], [folder])
    assert [*found.plugin_digests(found.cell("fusion", "product").cell)] == ["product.py"]
    with pytest.raises(InputError, match=r"ranged\.yaml: model\.fusion: low 2\.0 is above high 1\.0"):
        found.cell("fusion", "ranged")
    with pytest.raises(InputError, match=r"^model\.fusion: low 2\.0 is above high 1\.0$"):
        build_fusion({"kind": "ranged", "low": 2.0, "high": 1.0}, hidden_size=4, causal=False, init_std=0.02)


SPREAD = """penalty:
  kind: spread
  target: {target}
  weight: 2.0
  warmup: 0.0
  points: {{layer: -1, vectors: first, most: null}}
"""


def with_spread(project: Path, target: float) -> Configuration:
    (project / "variants/penalty").mkdir(exist_ok=True)
    (project / "variants/penalty/spread.yaml").write_text(SPREAD.format(target=target))
    axes = "studies.fusion.axes={fusion: [additive], penalty: [spread]}"
    return Configuration(project, [axes], [EXAMPLES / "spread.py"])


def test_a_penalty_of_ones_own_is_typed_hashed_and_at_work(project: Path) -> None:
    cell = with_spread(project, 0.5).cell("fusion", "additive-spread").cell
    assert cell.penalty.target == 0.5
    assert Configuration.plugin_digests(cell).keys() == {"spread.py"}
    found = penalised(cell.penalty, classes=2, seed=0)
    assert found is not None
    points = torch.randn(20, 3, generator=torch.Generator().manual_seed(0))
    looked = found.look(points, torch.zeros(20, dtype=torch.int64), step=0, total=1)
    assert looked.metrics["penalty"] == pytest.approx(float((points.var(0, correction=0).mean() - 0.5) ** 2))
    moved = points - 0.1 * looked.gradient
    assert abs(moved.var(0).mean() - 0.5) < abs(points.var(0).mean() - 0.5)
    alone = found.look(points[:1], torch.zeros(1, dtype=torch.int64), step=0, total=1)
    assert alone.gradient is not None
    assert alone.gradient.isfinite().all(), "the last batch of an epoch may hold one sentence"
    with pytest.raises(InputError, match=r"spread.yaml: penalty.target: expected greater than 0"):
        with_spread(project, -1.0).cell("fusion", "additive-spread")


OWN = attributes(
    {"kind": "own", "weight": 1.0, "warmup": 0.0, "points": {"layer": -1, "vectors": "first", "most": None}}
)
HEAD = "import sys\n\nimport torch\n\nfrom isoscope import plugins\n\n\n"


def own(tmp_path: Path, text: str) -> Path:
    """A plugin file, loaded."""
    file = tmp_path / "own.py"
    file.write_text(HEAD + text)
    plugins.load(file)
    return file


def own_penalty(tmp_path: Path, result: str) -> WeightedPenalty:
    """A plugin's penalty that gives `result`, an expression of `points` and `labels`."""
    own(tmp_path, f'@plugins.penalty("own")\ndef own():\n    return lambda points, labels: {result}\n')
    found = penalised(OWN, classes=2, seed=0)
    assert found is not None
    return found


def look(penalty: WeightedPenalty, *, step: int = 0, classes: int = 2) -> dict[str, float]:
    points = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
    return penalty.look(points, torch.arange(6) % classes, step=step, total=10).metrics


NAMED = "__import__('collections').namedtuple('T', {fields!r})({values})"


@pytest.mark.parametrize(
    "result, expected",
    [
        ("points @ points.T", r"returns a tensor of shape \[6, 6\] and type torch.float32; expected a scalar tensor"),
        ("points.sum(0)", r"returns a tensor of shape \[3\]"),
        ("0.5", "returns 0.5; expected a scalar tensor"),
        ("None", "returns None; expected a scalar tensor"),
        ("points.argmax()", "type torch.int64; expected a scalar tensor"),
        ("(points.sum(), 1.0)", "returns .*; expected a scalar tensor, .* or a named tuple"),
        ("points.sum() / 0", "returns -?inf for the first batch"),
        ("points.sum() * float('nan')", "returns nan for the first batch"),
        ("points.detach().sum()", "does not depend on the points"),
        (NAMED.format(fields="loss_of penalty_weight", values="points.sum(), 1.0"), "'penalty_weight' is the name of"),
        (NAMED.format(fields="value bars", values="points.sum(), points"), "bars is a tensor of shape"),
        (NAMED.format(fields="value bars", values="points.sum(), 'many'"), "bars is 'many'"),
    ],
)
def test_a_penalty_that_gives_no_scalar_is_refused_by_name(tmp_path: Path, result: str, expected: str) -> None:
    with pytest.raises(InputError, match=rf"^plugin 'own' \(.*own\.py\): .*{expected}"):
        look(own_penalty(tmp_path, result))


def test_a_penalty_may_give_figures_and_later_have_nothing_to_say(tmp_path: Path) -> None:
    fields = NAMED.format(fields="value bars spread", values="points.sum(), points[:2, 0], 3")
    figures = look(own_penalty(tmp_path, fields))
    assert figures.keys() > {"penalty", "bars/class_0", "bars/class_1", "spread"}
    plugins.PENALTIES.own.clear()
    constant = own_penalty(tmp_path, "torch.tensor(2.0)")
    nothing = {"penalty": 2.0, "penalty_weight": 1.0, "penalty_gradient_norm": 0.0}
    assert look(constant, step=1) == nothing
    assert look(constant, classes=1) == nothing, "nor of a first batch of one class"


@pytest.mark.parametrize(
    "result, expected",
    [
        ("word[:1]", r"returns \[1, 4, 8\] of torch.float32; expected \[2, 4, 8\] of torch.float32"),
        ("word.sum(-1, keepdim=True)", r"returns \[2, 4, 1\]"),
        ("word.double()", r"returns \[2, 4, 8\] of torch.float64; expected"),
        ("None", "returns None; expected"),
        ("word / 0", "returns NaN or infinity for the first batch"),
        (None, "returns None; expected a torch.nn.Module"),
    ],
)
def test_a_fusion_of_another_shape_is_refused_by_name(tmp_path: Path, result: str | None, expected: str) -> None:
    """None: the factory returns nothing."""
    own(
        tmp_path,
        "class Own(torch.nn.Module):\n    def forward(self, word, position, token_type, mask):\n"
        f'        return {result}\n\n\n@plugins.fusion("own")\ndef own(hidden_size: int):\n'
        f"    return {result and 'Own()'}\n",
    )
    with pytest.raises(InputError, match=rf"^plugin 'own' \(.*own\.py\): {expected}"):
        classifier("own")(input_ids=torch.ones(2, 4, dtype=torch.int64))


def classifier(fusion: str) -> nn.Module:
    return build.from_scratch(
        family="bert", fusion={"kind": fusion}, vocab_size=9, hidden_size=8, layers=1, heads=2, intermediate_size=8,
        max_positions=8, dropout=0.0, attention_dropout=0.0, init_std=0.1, initializer_range=0.1, labels=["a", "b"],
        pad_id=0, seed=0, activation="gelu", norm="post", positions="learned",
    )  # fmt: skip


@pytest.mark.parametrize("value, follows", [("None", True), ("torch.nn.Identity()", True), ("False", False)])
def test_a_fusion_alone_says_that_no_norm_follows_it(tmp_path: Path, value: str, follows: bool) -> None:
    own(
        tmp_path,
        "class Own(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        f"        self.layer_norm = {value}\n\n"
        '    def forward(self, word, position, token_type, mask):\n        return word\n\n\n@plugins.fusion("own")\n'
        "def own(hidden_size: int):\n    return Own()\n",
    )
    model: Any = classifier("own")
    assert isinstance(model.bert.embeddings.LayerNorm, nn.LayerNorm) is follows


def test_a_fusion_that_fails_is_not_taken_for_a_bad_checkpoint(tmp_path: Path) -> None:
    BertModel(BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=2)).save_pretrained(
        tmp_path
    )
    own(tmp_path, '@plugins.fusion("own")\ndef own(hidden_size: int):\n    raise ValueError("no luck")\n')
    with pytest.raises(RunError, match=r"^plugin .*own\.py, line 10: ValueError: no luck$"):
        published.classifier(tmp_path, fusion={"kind": "own"}, labels=["a", "b"], seed=0)


@pytest.mark.parametrize("result", ["None", "3", "{'a': 'b'}", "{'a': None}", "[1]", "{'a': cell}"])
def test_a_measure_that_gives_no_numbers_is_a_failure_by_name(tmp_path: Path, result: str) -> None:
    own(tmp_path, f'@plugins.measure("own")\ndef own(cell):\n    return {result}\n')
    with pytest.raises(RunError, match=r"^plugin 'own' \(.*own\.py\): returns .*; expected {'metric': number}"):
        measure("own")(object())  # type: ignore[arg-type]


ROW = "{'sentence': 'a', 'label': 0}"


@pytest.mark.parametrize(
    "result",
    [
        "None",
        "[]",
        "{'train': []}",
        "dict.fromkeys(('train', 'validation', 'test'), 3)",
        "dict.fromkeys(('train', 'validation', 'test'), [3])",
        "dict.fromkeys(('train', 'validation', 'test'), [{'sentence': '\\udcff', 'label': 0}])",
        "dict.fromkeys(('train', 'validation', 'test'), [{'sentence': 'a', 'label': 10**99}])",
        f"dict.fromkeys(('train', 'validation', 'test'), [{ROW}, {{'sentence': 3, 'label': 0}}])",
    ],
)
def test_a_data_set_that_gives_no_rows_is_refused_by_name(tmp_path: Path, result: str) -> None:
    own(tmp_path, f'@plugins.dataset("own")\ndef own():\n    return {result}\n')
    with pytest.raises(InputError, match=r"^plugin 'own' \(.*own\.py\): expected {'train': rows") as caught:
        _from_plugin(plugins.DATASETS["own"], {})
    assert "\n" not in str(caught.value)


def test_rows_of_a_data_set_need_not_have_the_same_keys(tmp_path: Path) -> None:
    """A label that the first row lacks is missed by row, groups stay in one split, and other keys are not read."""
    text = """
@plugins.dataset("own")
def own(labelled=True):
    texts = {"train": "abcd", "validation": "ef", "test": "gh"}
    rows = {
        split: [{"sentence": one, "label": place % 2, "group": one, one: place or "0"} for place, one in enumerate(own)]
        for split, own in texts.items()
    }
    if not labelled:
        del rows["train"][0]["label"]
    return rows
"""
    own(tmp_path, text)
    corpus = _from_plugin(plugins.DATASETS["own"], {})
    assert corpus.labels == ("0", "1")
    assert corpus.facts["groups"] == {"column": "group", "train": 4, "validation": 2, "test": 2}
    with pytest.raises(InputError, match=r"^plugin own: train, row 1: column 'label' is null \(1 in all\)"):
        _from_plugin(plugins.DATASETS["own"], {"labelled": False})


def own_measure(_: int) -> Any:
    return measure("own")(object())  # type: ignore[arg-type]


EXITS = "\ndef leave(*given):\n    {how}\n"
HOWS = {
    "sys.exit(0)": r"it ends the program \(sys.exit\(0\)\)",
    "sys.exit()": r"it ends the program \(sys.exit\(None\)\)",
    "raise SystemExit('enough')": "it ends the program",
    "raise ValueError('wrong')": "ValueError: wrong",
    "1 / 0": "ZeroDivisionError",
    "open('/')": "IsADirectoryError",
    "open('/dev/null/file')": "NotADirectoryError",
}


@pytest.mark.parametrize("how, expected", HOWS.items())
def test_whatever_a_plugin_ends_with_has_its_name_and_line(tmp_path: Path, how: str, expected: str) -> None:
    text = (
        EXITS.format(how=how)
        + '\n@plugins.measure("own")\ndef measured(cell):\n    leave()\n'
        + '\n@plugins.dataset("own")\ndef rows():\n    leave()\n'
        + '\n@plugins.penalty("own")\ndef asked():\n    return leave\n'
        + '\n@plugins.fusion("own")\ndef fused(hidden_size: int):\n    leave()\n'
    )
    own(tmp_path, text)
    line = HEAD.count("\n") + 3
    uses = {
        "measure": lambda: own_measure(0),
        "data set": lambda: _from_plugin(plugins.DATASETS["own"], {}),
        "penalty": lambda: look(WeightedPenalty(OWN, classes=2, seed=0)),
        "fusion": lambda: classifier("own"),
    }
    for use in uses.values():
        with pytest.raises(RunError, match=rf"^plugin .*own\.py, line {line}: {expected}"), plugins_named():
            use()
    for count in (1, 2):
        with (
            pytest.raises(RunError, match=rf"^plugin .*own\.py, line {line}: {expected}"),
            plugins_named(),
            workers(count, key="measures.processes") as spread,
        ):
            list(spread(own_measure, [0, 1], lambda: None))
    child = Child(uses["fusion"])
    ending = child.ending(60)
    assert ending is not None
    assert ending.kind == FAILED
    assert f"own.py, line {line}: " in ending.text


def test_a_check_of_options_that_ends_the_program_has_its_name(project: Path, tmp_path: Path) -> None:
    text = (
        "from typing import Annotated\n\nfrom pydantic import AfterValidator\n\n"
        "Odd = Annotated[float, AfterValidator(lambda value: sys.exit(0))]\n\n\n"
        '@plugins.penalty("spread")\ndef spread(target: Odd):\n    return None\n'
    )
    (tmp_path / "own.py").write_text(HEAD + text)
    (project / "variants/penalty").mkdir(exist_ok=True)
    (project / "variants/penalty/spread.yaml").write_text(SPREAD.format(target=0.5))
    axes = "studies.fusion.axes={fusion: [additive], penalty: [spread]}"
    configuration = Configuration(project, [axes], [tmp_path / "own.py"])
    with pytest.raises(RunError, match=r"own\.py, line 12: it ends the program"), plugins_named():
        configuration.cell("fusion", "additive-spread")


def test_errors_of_others_keep_their_kind(tmp_path: Path) -> None:
    for error in (ValueError("x"), SystemExit(0), InputError("x"), RunError("x"), KeyboardInterrupt()):
        with pytest.raises(type(error)) as caught, plugins_named():
            raise error
        assert caught.value is error
    own(tmp_path, '@plugins.dataset("own")\ndef rows():\n    raise OSError(28, "No space left on device", "x")\n')
    with pytest.raises(OSError, match="No space"), plugins_named():
        plugins.DATASETS["own"].factory()


def test_an_option_is_a_finite_number(project: Path, tmp_path: Path) -> None:
    """A digest has no infinity."""
    (tmp_path / "own.py").write_text(
        f'{HEAD}\n@plugins.penalty("spread")\ndef spread(target: float):\n    return None\n'
    )
    (project / "variants/penalty").mkdir(exist_ok=True)
    axes = "studies.fusion.axes={fusion: [additive], penalty: [spread]}"
    for value in (".inf", "-.inf", ".nan"):
        (project / "variants/penalty/spread.yaml").write_text(SPREAD.format(target=value))
        with pytest.raises(InputError, match=r"penalty\.target: expected a finite number, got"):
            Configuration(project, [axes], [tmp_path / "own.py"]).cell("fusion", "additive-spread")
