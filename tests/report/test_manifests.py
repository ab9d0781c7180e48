"""A manifest on the page: complete, and nothing added."""

from pathlib import Path

import pytest

from isoscope.errors import InputError
from isoscope.report.page import task
from report_material import make_manifest


def test_what_a_reader_must_know(tmp_path: Path) -> None:
    manifest = make_manifest(tmp_path)
    shown = task("order", manifest)
    assert {"Source": "made", "Licence": "CC0-1.0", "Revision": "v1"}.items() <= shown["about"].items()
    assert shown["about"]["Bayes ceiling"] == "1.0"
    assert shown["about"]["Texts in two splits"] == "train/validation 0; train/test 0; validation/test 0"
    train = shown["splits"][0]
    assert tuple(train[key] for key in ("name", "rows", "balance")) == (
        "train",
        "400 rows",
        "negative 200 (50.0%), positive 200 (50.0%)",
    )
    assert train["sha256"] == manifest["files"]["train.parquet"]["sha256"]
    assert train["tokens"] == "–"
    assert shown["baselines"][0][0] == "TF-IDF, unigrams"


def test_tokens_where_they_are_known(tmp_path: Path) -> None:
    manifest = make_manifest(tmp_path)
    manifest["splits"]["train"]["tokens"] = {"min": 3, "mean": 8.1, "q50": 8.0, "q95": 14.5, "max": 17}
    assert task("order", manifest)["splits"][0]["tokens"] == "3 / 8 / 14.5 / 17"


@pytest.mark.parametrize("key", ["source", "splits", "files", "baselines", "facts", "shared"])
def test_a_manifest_of_another_form_is_named(tmp_path: Path, key: str) -> None:
    manifest = make_manifest(tmp_path)
    del manifest[key]
    with pytest.raises(InputError, match=f"manifest of order: '{key}' is missing"):
        task("order", manifest)
