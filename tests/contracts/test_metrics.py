"""A metric is declared once: the platform names none, and its title is no part of a run."""

import ast
import re
from pathlib import Path

import pytest

from isoscope import plugins
from isoscope.base import built_in, code_closure
from isoscope.base.code_closure import PACKAGE, stripped
from isoscope.platform.config.declared import known

EXAMPLE = Path(__file__).parents[2] / "docs/examples/piece_length.py"
WORDS = ("loss", "error", "moved", "n", "radius", "clusters", "neighbours", "procrustes")
"""Names of metrics that are words for other things, too."""
ELSEWHERE = {"config/loss.py": "a kind of penalty has the name of its metric"}
"""Files of the platform that name a metric, with the reason."""


def named(source: str) -> set[str]:
    """Return the names of metrics among the string literals of a source, without docstrings and sentences."""
    tree = ast.parse(source)
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    texts = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone
    ]
    return {part for text in texts if re.fullmatch(r"[\w/]+", text) for part in text.split("/")} & _names()


def _names() -> set[str]:
    return {*known(), "perplexity"} - {*WORDS}


def test_the_platform_names_no_metric() -> None:
    assert {"accuracy", "bleu", "f1", "matthews", "avg_sim", "isoscore"} <= _names()
    assert named('SHOWN = ("test/accuracy", "a test of accuracy")') == {"accuracy"}
    folder = PACKAGE / "platform"
    found = {file.relative_to(folder).as_posix(): named(file.read_text("utf-8")) for file in folder.rglob("*.py")}
    assert {file for file, names in found.items() if names} == {*ELSEWHERE}
    of_code = {name for name in _names() if "_" in name}
    for page in (*folder.rglob("*.html"), *folder.rglob("*.js")):
        code = re.sub(r"//.*", "", page.read_text("utf-8"))
        assert not of_code & {*re.findall(r"\w+", code)}, page


@pytest.mark.parametrize(
    "file, title, told",
    [
        (PACKAGE / "metrics/matrix_scores.py", '"Accuracy"', 'better="maximise"'),
        (PACKAGE / "states/measures.py", '"IsoScore"', "**SHARE"),
        (EXAMPLE, '"Error of a token\'s length", "characters"', 'better="minimise"'),
    ],
)
def test_a_title_is_no_part_of_the_code_version_and_a_direction_is(file: Path, title: str, told: str) -> None:
    text = file.read_text("utf-8")
    titled = text.replace(title, title.replace('"', '"Other ', 1))
    assert titled != text
    assert stripped(titled) == stripped(text) != stripped(text.replace(f", {told}", "", 1))
    assert stripped(titled, drawn=True) != stripped(text, drawn=True), "what draws has another version"


def test_a_plugins_title_does_not_change_its_digest(tmp_path: Path) -> None:
    text = EXAMPLE.read_text("utf-8")
    changes = {"same": text, "titled": text.replace("squared characters", "px"), "turned": text.replace("mini", "maxi")}
    digests = {}
    for name, source in changes.items():
        (tmp_path / f"{name}.py").write_text(source, "utf-8")
        digests[name] = plugins.digest(tmp_path / f"{name}.py")
    assert digests["same"] == digests["titled"] != digests["turned"]


@pytest.mark.parametrize(
    "name, title", [("metrics/matrix_scores.py", '"Accuracy"'), ("training/anisotropy.py", '"Mean H0 bar"')]
)
def test_a_title_draws_again_and_trains_nothing(monkeypatch: pytest.MonkeyPatch, name: str, title: str) -> None:
    before, text, read = _versions(), Path.read_text, code_closure._read

    def titled(path: Path, *options: str) -> str:
        found = text(path, *options)
        return found.replace(title, '"Other"') if path == PACKAGE / name else found

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_text", titled)
        patch.setattr(code_closure, "_read", lambda file: (read.__wrapped__ if file == PACKAGE / name else read)(file))
        after = _versions()
    drawing = {"analyse", "compare", "report", "search"}
    assert {stage for stage in before if before[stage] != after[stage]} == drawing
    assert _versions() == before


def _versions() -> dict[str, str]:
    """Return the code version of every stage, as the sources are now."""
    for kept in (code_closure.closure, code_closure.code_version):
        kept.cache_clear()
    return {stage: code_closure.stage_version(stage) for stage in built_in.STAGES}


def test_a_run_depends_on_the_metrics_of_its_own_objective() -> None:
    files = {kind: PACKAGE.joinpath(*name.split(".")[1:]).with_suffix(".py") for kind, name in built_in.METRICS.items()}
    for kind, file in files.items():
        own = code_closure.closure("train", (built_in.OBJECTIVES[kind],))
        assert file in own
        assert files["alignment"] not in own or kind == "alignment"
