"""A fusion and a data set of one's own: typed, hashed, and as small as promised."""

from pathlib import Path

import pytest
import torch

from isoscope import plugins
from isoscope.config.load import Configuration
from isoscope.errors import InputError
from isoscope.training.penalised import penalised

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "docs/examples"
PRODUCT = "model:\n  fusion:\n    kind: product\n    scale: {scale}\n"


@pytest.fixture(autouse=True)
def _forget():
    """Registries as they were: a plugin of one test is none of the next."""
    registries = plugins.FUSIONS, plugins.DATASETS, plugins.PENALTIES
    before = [dict(one) for one in registries]
    yield
    for registry, kept in zip(registries, before, strict=True):
        registry.clear()
        registry.update(kept)


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


def test_a_fusion_of_ones_own_is_typed(project: Path) -> None:
    assert load(project).cell("fusion", "product").cell.model.fusion.scale == 50.0


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
        load(project).check()
    assert expected in str(caught.value)


def test_without_the_plugin_its_kind_is_unknown(project: Path) -> None:
    with pytest.raises(InputError, match="kind 'product' is unknown"):
        Configuration(project, ["studies.fusion.axes.fusion=[product]"]).check()


def test_its_code_is_part_of_the_digest_of_the_arms_that_use_it_only(project: Path, tmp_path: Path) -> None:
    own = tmp_path / "own.py"
    source = (EXAMPLES / "product.py").read_text()
    own.write_text(source)
    configuration = load(project, plugin=own)
    (first,) = configuration.plugin_digests(configuration.cell("fusion", "product").cell).values()
    assert configuration.plugin_digests(configuration.cell("fusion", "additive").cell) == {}
    own.write_text(source.replace("hidden_size: int, scale", "hidden_size: int, scale") + "# a comment\n")
    assert plugins.digest(own) == first
    own.write_text(source.replace("* word", "* 2 * word"))
    assert plugins.digest(own) != first


@pytest.mark.parametrize(
    "text, expected",
    [
        (
            "from isoscope.plugins import fusion\n@fusion('fft')\ndef own(hidden_size): ...\n",
            "'fft' is a built-in kind",
        ),
        ("import nowhere_to_be_found\n", "ModuleNotFoundError"),
        ("def f(:\n", "SyntaxError"),
        ("from isoscope.plugins import fusion\n@fusion('x')\ndef x(hidden_size, scale): ...\n", "'scale' needs a type"),
    ],
)
def test_a_broken_file_is_one_line(project: Path, tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "broken.py").write_text(text)
    with pytest.raises(InputError) as caught:
        load(project, plugin=tmp_path / "broken.py")
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(project: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gone\.py: no such file"):
        load(project, plugin=tmp_path / "gone.py")


def test_loading_leaves_no_cache_beside_the_file(project: Path, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    own = tmp_path / "own/own.py"
    own.write_text((EXAMPLES / "product.py").read_text())
    load(project, plugin=own)
    assert list((tmp_path / "own").iterdir()) == [own]


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
    assert looked.figures["penalty"] == pytest.approx(float((points.var(0, correction=0).mean() - 0.5) ** 2))
    moved = points - 0.1 * looked.gradient
    assert abs(moved.var(0).mean() - 0.5) < abs(points.var(0).mean() - 0.5)
    alone = found.look(points[:1], torch.zeros(1, dtype=torch.int64), step=0, total=1)
    assert alone.gradient is not None
    assert alone.gradient.isfinite().all(), "the last batch of an epoch may hold one sentence"
    with pytest.raises(InputError, match=r"spread.yaml: penalty.target: expected greater than 0"):
        with_spread(project, -1.0).cell("fusion", "additive-spread")
