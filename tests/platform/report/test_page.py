"""The page as text: complete, self-contained, escaped, and reproducible."""

import io
import re
from collections import Counter
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pandas as pd
import pytest

from isoscope.base.errors import InputError
from isoscope.platform.config.load import Configuration
from isoscope.platform.mirror.browsing import VIEW_TAG
from isoscope.platform.report.task_section import task
from isoscope.platform.stages.report import heading
from report_material import COMMIT, Material, make, make_manifest

ROOT = Path(__file__).parents[3]

HOSTILE = ("<script>alert(1)</script>", '"><img src=x onerror=alert(1)>')


class Outline(HTMLParser):
    """Tags with their attributes, and the text under them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def all(self, attribute: str) -> list[str]:
        return [value for _, attrs in self.tags if (value := attrs.get(attribute)) is not None]

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))


@pytest.fixture(scope="module")
def outline(material: Material) -> Outline:
    return Outline(material.page())


def test_nothing_is_asked_for(outline: Outline, material: Material) -> None:
    assert outline.all("src") == []
    assert {tag for tag, _ in outline.tags} & {"iframe", "object", "embed", "base"} == set()
    assert [attrs for tag, attrs in outline.tags if tag == "script"] == [{}]
    assert all(target.startswith(("#", "data:")) for target in outline.all("href") + outline.all("xlink:href"))
    assert "@import" not in material.page()
    assert re.findall(r"url\((?!#)", material.page()) == []


def test_a_large_table_is_a_file_next_to_the_page(material: Material, monkeypatch: pytest.MonkeyPatch) -> None:
    (study,) = material.studies
    inside = Outline(material.page())
    packed = {attrs["download"]: attrs["href"] for tag, attrs in inside.tags if tag == "a" and "download" in attrs}
    monkeypatch.setattr("isoscope.platform.report.drawing.MOST", 10)
    page = material.built()
    links = {attrs["href"] for tag, attrs in Outline(page.html).tags if tag == "a" and "download" in attrs}
    assert links == page.files.keys() == {f"data/{(name or '').removesuffix('.gz')}" for name in packed}
    bands = pd.read_csv(io.BytesIO(page.files["data/study-fusion-training-bands.csv"]))
    assert bands.shape == study.by_name["bands"].shape
    assert packed["study-fusion-training-bands.csv.gz"].startswith("data:application/gzip;base64,")
    assert "(in data/, beside this page)" in page.html


def test_the_page_is_whole(outline: Outline) -> None:
    """Ids are unique, references lead somewhere, headings go down a level at a time, figures and tables are told."""
    ids = outline.all("id")
    assert len(ids) == len(set(ids))
    links = [target[1:] for target in outline.all("href") if target.startswith("#")]
    assert {*links, *(name for names in outline.all("aria-labelledby") for name in names.split())} <= set(ids)
    levels = [int(tag[1]) for tag, _ in outline.tags if re.fullmatch(r"h[1-6]", tag)]
    assert (levels[0], levels.count(1)) == (1, 1)
    assert all(below - above <= 1 for above, below in pairwise(levels))
    counts = Counter(tag for tag, _ in outline.tags)
    assert counts["figure"] == counts["figcaption"] == counts["desc"] == 2
    assert counts["table"] == counts["caption"] == 5
    assert counts["svg"] == 3, "the first screen shows the first figure again"
    assert all("scope" in attrs for tag, attrs in outline.tags if tag == "th")


def test_every_caption_of_a_study_names_its_origin(material: Material) -> None:
    captions = re.findall(r"<figcaption>.*?</figcaption>", material.page(), re.DOTALL)
    captions += re.findall(r'<details class="below"><summary>Data, code.*?</details>', material.page(), re.DOTALL)
    assert len(captions) == 3
    for caption in captions:
        assert all(run.digest[:12] in caption for run in material.studies[0].runs)
        assert "0123456789abcdef0123456789abcdef.dir" in caption
        assert f"{COMMIT[:10]} with changes" in caption
        assert "not recorded here" in caption  # the run without a record


def test_the_table_holds_arms_and_baselines_with_n_and_verdicts_what_was_detectable(
    outline: Outline, material: Material
) -> None:
    first = material.studies[0].comparison[0]
    baselines = ("majority class", "TF-IDF, unigrams", "TF-IDF, uni- and bigrams")
    sections = ("Study fusion", "Data", "Runs", "Plugins", "plugins/gated.py", "CC0-1.0", "word order", "isoscope ui")
    for text in (f"{first.mean:.3f} ± {first.sd:.3f} (3)", "2 from epoch 8", *baselines, *sections):
        assert text in outline.text
    assert outline.text.count("(120 rows)") == 15
    value = r"−0\.\d+ \[.+?\]"
    assert re.search(rf"holds Accuracy, fft against additive: lower, {value} \(3 paired seeds\); over", outline.text)
    assert re.search(rf"Accuracy, fft against additive {value} 3 paired seeds holds", outline.text)


def test_links_where_a_server_is_known(material: Material) -> None:
    page = Outline(material.page(tracking_uri="http://127.0.0.1:5000", experiments={"fusion": "4"}))
    whole, *links = [target for target in page.all("href") if target.startswith("http")]
    start, _, key = whole.rpartition("=")
    assert start == "http://127.0.0.1:5000/#/experiments/4/runs?workflowType=machine_learning&viewStateShareKey"
    assert f"mlflow.sharedViewState.{key}" == VIEW_TAG
    assert len(links) == len(material.studies[0].runs)
    assert all(link.startswith("http://127.0.0.1:5000/#/experiments/4/runs?") for link in links)
    assert all("searchFilter=" in link for link in links)
    assert "start it with isoscope ui" in " ".join(page.text.split())
    page = Outline(material.page(tracking_uri="https://mlflow.example"))  # no experiment is known
    assert [target for target in page.all("href") if target.startswith("http")] == ["https://mlflow.example"]
    assert "isoscope ui" not in page.text


def test_hostile_names_are_text(tmp_path: Path) -> None:
    made = make(
        tmp_path, arms={"additive": 0.8}, seeds=1, labels=HOSTILE, source=HOSTILE[0], plugins={HOSTILE[1]: "a" * 64}
    )
    page = Outline(made.page(title=HOSTILE[0]))
    assert "One arm: nothing to compare." in page.text
    assert "img" not in {tag for tag, _ in page.tags}
    assert [tag for tag, _ in page.tags].count("script") == 1
    assert not any(name.startswith("on") for _, attrs in page.tags for name in attrs)
    assert all(name in page.text for name in HOSTILE)


def test_two_seeds_get_no_interval(tmp_path: Path) -> None:
    page = Outline(make(tmp_path, arms={"additive": 0.8, "fft": 0.7}, seeds=2).page())
    assert "5 differences of arms with fewer than 3 paired seeds: no interval, so under-powered." in page.text
    assert "2 seeds per arm: every difference is under-powered." in page.text
    assert "Highest mean" not in page.text
    assert not re.search(r"\[[+−]0", page.text)


def test_a_study_without_seeds_says_so(material: Material) -> None:
    study = material.studies[0]
    nothing = {name: table[:0] for name, table in study.by_name.items()}
    empty = study._replace(study="later", by_name=nothing, comparison=[], runs=[])
    assert "There is no task." in Outline(material.page(studies=[], manifests={}, records={})).text
    page = Outline(material.page(studies=[study, empty], folders={**material.folders, "later": Path()}))
    assert "No runs: this study has no seeds." in page.text
    assert len(page.all("id")) == len(set(page.all("id")))


def test_a_page_without_a_title_of_its_own_names_its_studies() -> None:
    assert heading(["bank"]) == "Study bank"
    assert heading(["fusion", "isotropy", "bank"]) == "Studies fusion, isotropy and bank"
    assert heading([]) == "Study none"
    assert Configuration(ROOT).root.report.title is None, "a title as shipped would stand above other people's studies"


def test_the_first_screen_says_what_a_study_asks_and_where_its_text_is_from(material: Material) -> None:
    (study,) = material.studies
    told = material.manifests["order"] | {"source": "embedded:sentiment"}
    bands = {"additive_between": [0.85, 0.95], "of": "test accuracy", "tfidf_bigram_below": 0.75}
    designed = told | {"facts": {"design": bands}}
    for manifest, said in (
        (told | {"source": "local:bank.csv"}, "Text of order: bank.csv."),
        (told, "Text of order: generated by rules (sentiment), not natural language."),
        (
            designed,
            "set for test accuracy: additive between 0.85 and 0.95, tfidf bigram below 0.75.",
        ),
    ):
        assert said in Outline(material.page(manifests={"order": manifest})).text
    asked = material.page(abouts={study.study: "Does <order> matter?"})
    assert asked.count(">Does &lt;order&gt; matter?</p>") == 2, "on the first screen and above the study"
    assert "matter?" not in material.page(abouts={study.study: None})


def test_what_a_reader_must_know(tmp_path: Path) -> None:
    manifest = make_manifest(tmp_path)
    shown = task("order", manifest)
    manifest["splits"]["train"]["tokens"] = {"min": 3, "mean": 8.1, "q50": 8.0, "q95": 14.5, "max": 17}
    assert task("order", manifest)["splits"][0]["tokens"] == "3 / 8 / 14.5 / 17"
    assert {"Source": "made", "Licence": "CC0-1.0", "Revision": "v1"}.items() <= shown["about"].items()
    assert shown["about"]["Bayes ceiling"] == "1.0"
    chinese = manifest | {"languages": {"sentence": "Chinese"}, "words_by": "icu4py 1, ICU 9"}
    known = {"Languages, by script": "sentence: Chinese", "Words of text without spaces": "icu4py 1, ICU 9"}
    assert known.items() <= task("order", chinese)["about"].items()
    assert not known.keys() & shown["about"].keys()
    assert shown["about"]["Texts in two splits"] == "train/validation 0; train/test 0; validation/test 0"
    train = shown["splits"][0]
    assert tuple(train[key] for key in ("name", "rows", "balance")) == (
        "train",
        "400 rows",
        "negative 200 (50.0%), positive 200 (50.0%)",
    )
    assert train["sha256"] == manifest["files"]["train.parquet"]["sha256"]
    assert train["tokens"] == "–"
    assert shown["baselines"][0][0] == "majority class, test accuracy"


@pytest.mark.parametrize("key", ["source", "splits", "files", "baselines", "facts", "shared"])
def test_a_manifest_of_another_form_is_named(tmp_path: Path, key: str) -> None:
    manifest = make_manifest(tmp_path)
    del manifest[key]
    with pytest.raises(InputError, match=f"manifest of order: '{key}' is missing"):
        task("order", manifest)
