"""`isoscope new`: a project of its own for a file of text, or nothing at all for wrong input."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pytest
from datasets import Dataset, DatasetDict

from isoscope.base import code_closure
from isoscope.base.errors import InputError
from isoscope.data import task_files
from isoscope.platform.config.across_studies import check_all
from isoscope.platform.config.load import Configuration
from isoscope.platform.config.new_project import CHECKPOINTS
from isoscope.platform.config.profiles import apply, restore
from isoscope.platform.config.tree import read_yaml
from isoscope.platform.stages import new as new_module
from isoscope.platform.stages.new import Made, new
from tracked_runs import together

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def author(monkeypatch: pytest.MonkeyPatch) -> None:
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "A")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "a@example.org")


@pytest.fixture
def reviews(tmp_path: Path) -> Path:
    file = tmp_path / "my reviews-2.csv"
    rows = [f"the {word} film number {number},{number % 3 + 1}" for word in ("red", "blue") for number in range(60)]
    file.write_text("\n".join(["review,stars", *rows]), "utf-8")
    return file


def made(folder: Path, text: Path | None, label: str | None = "stars", profile: str | None = None) -> Made:
    column = None if text is None else "review"
    return new(folder, text=text and str(text), column=column, label=text and label, profile=profile)


def git(folder: Path, *words: str) -> str:
    return subprocess.run(("git", *words), cwd=folder, capture_output=True, text=True, check=True).stdout


def test_the_file_is_its_only_task_and_all_is_committed(tmp_path: Path, reviews: Path) -> None:
    project = tmp_path / "deep" / "my-study"
    assert made(project, reviews) == Made(project, "my_reviews_2", [], searches=True)
    configuration = Configuration(project)
    assert check_all(configuration) == 3  # one task, two arms
    assert configuration.root.tasks == ("my_reviews_2",)
    assert [*configuration.root.studies] == ["first"]
    assert configuration.root.search is not None
    source_of_text = configuration.data("my_reviews_2").source
    assert source_of_text.columns.model_dump(exclude_none=True) == {"sentence": "review", "label": "stars"}
    assert (project / source_of_text.path).read_bytes() == reviews.read_bytes()
    assert git(project, "status", "--porcelain") == ""
    assert "isoscope new my-study" in git(project, "log", "--format=%s")
    schema = json.loads((project / "params.schema.json").read_text())
    assert schema == json.loads((ROOT / "params.schema.json").read_text())


def test_nothing_in_it_depends_on_isoscopes_sources(tmp_path: Path) -> None:
    project = made(tmp_path / "p", None, None).folder
    own, theirs = (read_yaml(folder, Path("dvc.yaml"))["stages"] for folder in (project, ROOT))
    assert own.keys() == theirs.keys() == read_yaml(project, Path("code.yaml")).keys() - {"isoscope"}
    for name, stage in own.items():
        body, given = (one.get("do", one) for one in (stage, theirs[name]))
        assert body["deps"] == [one for one in given["deps"] if not one.startswith("src/")]
        assert body["params"] == [*given["params"], {"code.yaml": [name]}]
        assert {key: body[key] for key in body.keys() - {"deps", "params"}} == {
            key: given[key] for key in given.keys() - {"deps", "params"}
        }


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_a_profile_keeps_the_studies_and_tasks_of_the_project(tmp_path: Path, reviews: Path, name: str) -> None:
    project = made(tmp_path / "p", reviews).folder
    assert {path.stem for path in (project / "profiles").glob("*.yaml")} == {*CHECKPOINTS}
    params = project / "params.yaml"
    params.write_text(
        params.read_text("utf-8").replace("first:", "mine:").replace("study: first", "study: mine"), "utf-8"
    )
    git(project, "commit", "--quiet", "--all", "--message", "a study of another name")
    before = Configuration(project)
    apply(project, name)
    after = Configuration(project)
    assert after.root.studies == before.root.studies
    assert after.root.tasks == before.root.tasks
    assert {arm: cell.cell.model.encoder.checkpoint for arm, cell in after.cells("mine").items()} == dict.fromkeys(
        ("additive", "conv2d"), CHECKPOINTS[name]
    )
    restore(project)
    assert Configuration(project).root == before.root


def test_a_profile_at_once_is_a_profile_later(tmp_path: Path, reviews: Path) -> None:
    project, at_once = made(tmp_path / "p", reviews).folder, made(tmp_path / "q", reviews, profile="minilm").folder
    apply(project, "minilm")
    assert (at_once / "params.yaml").read_bytes() == (project / "params.yaml").read_bytes()


@pytest.mark.parametrize(
    "label, question",
    [
        ("stars", "classifies the column review of my reviews-2.csv by stars best?"),
        (None, "predicts masked words of the column review of my reviews-2.csv best?"),
    ],
)
def test_it_speaks_of_the_users_text(tmp_path: Path, reviews: Path, label: str | None, question: str) -> None:
    project = made(tmp_path / "p", reviews, label).folder
    about = Configuration(project).root.studies["first"].about
    assert about.endswith(question)
    assert about in (project / "README.md").read_text("utf-8")
    said = written(project)
    assert not re.search(r"sst-?2|cola\b|mrpc|how should word|sentiment", said)
    assert ("profiles/" in said) == (label is not None) == (project / "profiles").is_dir()


def written(project: Path) -> str:
    """Return what the files of a project say that are made for its text, in lower case."""
    files = [project / "README.md", project / "params.yaml"]
    files += [file for folder in ("variants/task", "profiles") for file in (project / folder).glob("*.yaml")]
    return "\n".join(file.read_text("utf-8").lower() for file in files)


class Form(NamedTuple):
    """A form of `isoscope new`: options, and what its project has."""

    options: dict[str, Any]
    question: str
    objective: str
    select: str
    splits: tuple[str | None, ...] = ("train", None, None)


FORMS = {
    "classes": Form(
        {"text": "posts.csv", "column": "premise", "label": "class"},
        "classifies the column premise of posts.csv by class best?",
        "classification",
        "accuracy",
    ),
    "scores of pairs": Form(
        {"text": "posts.csv", "pair": ("premise", "hypothesis"), "score": "similarity"},
        "predicts the similarity of pairs of premise and hypothesis in posts.csv best?",
        "regression",
        "spearman",
    ),
    "labels between separators": Form(
        {"text": "posts.csv", "column": "premise", "labels": "tags", "separator": "|"},
        "predicts the tags of the column premise of posts.csv best?",
        "multilabel",
        "micro_f1",
    ),
    "lists of labels, in groups": Form(
        {"text": "posts.jsonl", "column": "premise", "labels": "tags", "group": "author"},
        "predicts the tags of the column premise of posts.jsonl best?",
        "multilabel",
        "micro_f1",
    ),
    "lines of text": Form(
        {"text": "book.txt"}, "predicts masked words of the lines of book.txt best?", "masked", "loss"
    ),
    "a file per split": Form(
        {"train": "posts-train.csv", "test": "folder/test.parquet", "column": "premise", "score": "similarity"},
        "predicts the similarity of the column premise of posts best?",
        "regression",
        "spearman",
        ("train", None, "test"),
    ),
    "a folder of splits": Form(
        {"text": "folder", "pair": ("premise", "hypothesis"), "label": "class"},
        "classifies pairs of premise and hypothesis in folder by class best?",
        "classification",
        "accuracy",
        ("train", "dev", "test"),
    ),
    "datasets.save_to_disk": Form(
        {"text": "saved", "column": "premise", "labels": "tags", "train": "first"},
        "predicts the tags of the column premise of saved best?",
        "multilabel",
        "micro_f1",
        ("first", None, "test"),
    ),
    "a name of the hub": Form(
        {"text": "hub:mine/folder", "column": "premise", "score": "similarity"},
        "predicts the similarity of the column premise of mine/folder best?",
        "regression",
        "spearman",
        ("train", "dev", "test"),
    ),
}


@pytest.fixture
def posts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Enter a folder with the texts of `FORMS`: each row has every kind of target."""
    rows = [
        {
            "premise": f"the {word} film number {number}",
            "hypothesis": f"film {number} is {word}",
            "class": word,
            "similarity": number / 7,
            "tags": ["even", word] if number % 2 == 0 else [],
            "author": f"author {number % 12}",
        }
        for word in ("red", "blue")
        for number in range(60)
    ]
    monkeypatch.chdir(tmp_path)
    table = pd.DataFrame(rows)
    table.assign(tags=table["tags"].map("|".join)).to_csv("posts.csv", index=False)
    Path("posts.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    Path("book.txt").write_text("\n\n".join(table["premise"]), "utf-8")
    parts = {"train": table.iloc[::2], "dev": table.iloc[1::4], "test": table.iloc[3::4]}
    (tmp_path / "hub/mine").mkdir(parents=True)
    for folder in ("folder", "hub/mine/folder"):
        (tmp_path / folder).mkdir()
        for name, part in parts.items():
            part.to_parquet(f"{folder}/{name}.parquet")
    parts["train"].drop(columns="tags").to_csv("posts-train.csv", index=False)
    Path("folder/notes.md").write_text("not a split", "utf-8")
    whole = {"first": parts["train"], "test": parts["test"]}
    DatasetDict({name: Dataset.from_pandas(part, preserve_index=False) for name, part in whole.items()}).save_to_disk(
        "saved"
    )
    monkeypatch.setenv("ISOSCOPE_HUB", str(tmp_path / "hub"))
    return tmp_path


@pytest.mark.parametrize("form", FORMS.values(), ids=[*FORMS])
def test_every_form_of_text_and_target_is_a_project(posts: Path, form: Form) -> None:
    """Its arms train for the target, select by its first score, and name none of another target."""
    found = new(posts / "p", **form.options)
    configuration = Configuration(found.folder)
    assert check_all(configuration) == 3
    cells = [one.cell for one in configuration.cells("first").values()]
    assert {(one.objective.kind, one.training.select) for one in cells} == {(form.objective, form.select)}
    source = configuration.data(found.task).source
    assert tuple(source.splits.model_dump().values()) == form.splits
    about, said = configuration.root.studies["first"].about, written(found.folder)
    assert about.endswith(form.question)
    assert ("accuracy" in re.sub(r"#.*", "", said)) == (form.objective == "classification")
    search = configuration.root.search
    assert next(iter(search.objectives)) == f"validation/{form.select}"
    assert [*search.constraints] == ([] if form.select == "loss" else [f"validation/{form.select}"])
    assert ("penalty" in search.space) == (form.objective == "classification")
    # The project reads its own files, and equally: the originals are gone.
    for path in (path for path in posts.iterdir() if path.name not in ("p", "hub")):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    corpus = task_files.read(source.model_dump(), found.folder)
    assert corpus.splits["train"].num_rows > 50
    assert not [*found.folder.glob("texts/**/*.md")][1:], "only the README of texts/"
    assert git(found.folder, "status", "--porcelain") == ""
    for name in CHECKPOINTS if form.objective != "masked" else ():
        apply(found.folder, name)
        restore(found.folder)


@pytest.mark.parametrize(
    "options, line",
    [
        ({"label": "class"}, "--label class: there is no text; name it with --from"),
        ({"text": "posts.csv", "label": "class", "score": "x"}, "--label class and --score x: a task has one target"),
        ({"text": "posts.csv", "pair": ("a", "b"), "column": "c"}, "--pair a b and --column c: give one of them"),
        ({"text": "posts.csv", "pair": ("a", "b")}, "--pair a b: say what to predict, with --label, --score, --labels"),
        ({"text": "posts.csv", "pair": ("a", "b"), "score": "x"}, "posts.csv: no column 'a' (--pair); there are: "),
        ({"text": "posts.csv", "column": "premise", "separator": "|"}, "--separator |: splits the column of --labels"),
        (
            {"text": "posts.csv", "column": "premise", "labels": "class"},
            "--labels class: posts.csv holds string, not lists; for several labels in a text give what stands between "
            "them, such as --separator '|'; for one class per text: --label class",
        ),
        ({"text": "posts.csv", "column": "premise", "score": "class"}, "posts.csv, row 1: column 'class' is 'red'; "),
        ({"text": "posts.csv", "test": "posts.jsonl"}, "--from posts.csv --test: one file has no splits"),
        ({"train": "gone.csv"}, "--train gone.csv: no such file"),
        ({"train": "posts.csv", "test": "folder"}, "--test folder: no such file"),
        ({"test": "posts.csv"}, "--test posts.csv: there is no text; name it with --from or --train"),
        (
            {"text": "saved", "column": "premise"},
            "--from saved: no split 'train'; there are: first, test; give --train",
        ),
        (
            {"text": "folder", "test": "tset"},
            "--from folder: no split 'tset'; there are: dev, test, train; give --test",
        ),
        ({"text": "mine/folder"}, "--from mine/folder: no such file or folder; on the hub: hub:mine/folder"),
        ({"text": "hub:folder/../x"}, "hub name 'folder/../x': expected <name> or <org>/<name>"),
    ],
)
def test_options_that_do_not_agree_are_one_line_with_the_cure(posts: Path, options: dict[str, Any], line: str) -> None:
    with pytest.raises(InputError) as caught:
        new(posts / "p", **options)
    assert str(caught.value).startswith(line)
    assert not (posts / "p").exists()


def test_a_model_has_as_many_positions_as_nearly_all_texts_need(posts: Path) -> None:
    long = pd.DataFrame({"text": [f"{number} {'word ' * (90 if number > 2 else 500)}" for number in range(100)]})
    long.to_csv("long.csv", index=False)
    chinese = pd.DataFrame({"text": [f"{number}号今天天气很好。" * 9 for number in range(100)]})  # one "word" each
    chinese.to_csv("chinese.csv", index=False)
    for text, expected in (("long.csv", 256), ("posts.csv", 64), ("chinese.csv", 128)):
        options = {"column": "premise", "label": "class"} if text == "posts.csv" else {}
        project = new(posts / f"p{expected}", text=text, **options).folder
        model = next(iter(Configuration(project).cells("first").values())).cell.model
        assert (model.max_length, model.encoder.max_positions) == (expected, expected)


@pytest.mark.parametrize(
    "stem, task",
    [
        ("2024-01-05", "text_2024_01_05"), ("1e5", "text_1e5"), ("1.5", "text_1.5"), ("true", "text_true"),
        ("レビュー2", "text_2"), ("mood😀", "mood"), ("20newsgroups", "20newsgroups"),
    ],
)  # fmt: skip
def test_a_file_and_a_column_of_any_name_are_a_project(posts: Path, stem: str, task: str) -> None:
    """A task's name is text also where YAML would read a number; letters beyond the first plane are no surrogates."""
    label = "mood 😀𠮷\x7f\x85\x9f\u2028\ufffe"
    table = pd.read_csv("posts.csv").rename(columns={"class": label})
    table.to_csv(f"{stem}.csv", index=False)
    found = new(posts / "p", text=f"{stem}.csv", column="premise", label=label)
    assert found.task == task
    configuration = Configuration(found.folder)
    assert check_all(configuration) == 3
    assert "mood 😀𠮷" in configuration.root.studies["first"].about
    assert configuration.data(task).source.columns.label == label


def test_a_split_without_labels_is_left_out_and_none_stands_for_two(posts: Path) -> None:
    """The test split of GLUE has no labels: −1."""
    pd.read_parquet("folder/test.parquet").assign(**{"class": "-1"}).to_parquet("folder/test.parquet")
    options = {"text": "folder", "column": "premise", "label": "class"}
    with pytest.raises(InputError, match=r"label '-1' does not occur in train \(blue, red\)"):
        new(posts / "p", **options)
    with pytest.raises(InputError, match=r"the split 'dev' stands for two of train, validation and test; give another"):
        new(posts / "p", **options, test="dev")
    found = new(posts / "p", **options, test="none")
    assert Configuration(found.folder).data("folder").source.splits.test is None


def test_texts_of_train_that_other_splits_repeat_are_said(posts: Path) -> None:
    pd.DataFrame({"text": [f"a fine film, number {number}" for number in range(40)]}).to_csv("train.csv", index=False)
    pd.DataFrame({"text": ["A fine  film, number 3.", "Another film"]}).to_csv("test.csv", index=False)
    found = new(posts / "p", train="train.csv", validation="test.csv", test="train.csv")
    assert any(note.startswith("1 rows of validation and 40 of test repeat a text of train") for note in found.notes)
    assert not any("repeat" in note for note in new(posts / "q", train="train.csv").notes)


def test_vowel_signs_are_kept(tmp_path: Path) -> None:
    """WordPiece in lower case removes all marks, which are vowels of Hindi, not accents."""
    text = tmp_path / "hindi.csv"
    rows = [f"{word} फिल्म नंबर {number},{mood}" for word, mood in (("अच्छी", 1), ("बुरी", 0)) for number in range(30)]
    text.write_text("\n".join(["review,stars", *rows]), "utf-8")
    found = made(tmp_path / "p", text)
    assert any("the text's marks" in note for note in found.notes)
    assert not Configuration(found.folder).data("hindi").tokenizer.lowercase


def test_text_without_classes_is_for_a_masked_language_model(tmp_path: Path, reviews: Path) -> None:
    project = made(tmp_path / "p", reviews, label=None).folder
    configuration = Configuration(project)
    assert [*configuration.arms("first")] == ["additive-masked", "conv2d-masked"]
    assert [*configuration.root.search.objectives] == ["validation/loss"]
    with pytest.raises(InputError, match=r"--profile minilm: no such profile .* give what to predict"):
        made(tmp_path / "q", reviews, label=None, profile="minilm")


@pytest.mark.parametrize("rows", [10, 5_000, 1_000_000])
def test_a_run_reads_about_as_many_examples_whatever_the_file(rows: int) -> None:
    from isoscope.platform.config.new_project import EXAMPLES, MOST_EPOCHS, length

    epochs, fraction = length(rows)
    assert epochs * fraction * rows <= 1.1 * EXAMPLES
    assert epochs * fraction * rows >= 0.9 * EXAMPLES or (epochs, fraction) == (MOST_EPOCHS, 1.0)


@pytest.mark.parametrize(
    "text, columns, expected",
    [
        ("gone.csv", ("review", "stars"), "--from gone.csv: no such file"),
        (
            "t.csv",
            ("text", "stars"),
            "t.csv: no column 'text' (--column); there are: review, stars",
        ),
        (
            "t.csv",
            ("review", "mood"),
            "t.csv: no column 'mood' (--label); there are: review, stars",
        ),
        ("t.csv", ("review", "review"), "columns: each must name a different column"),
        ("t.md", ("review", "stars"), "t.md: unknown format"),
    ],
)
def test_wrong_input_leaves_nothing_behind(
    tmp_path: Path, reviews: Path, monkeypatch: pytest.MonkeyPatch, text: str, columns: tuple[str, str], expected: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("t.csv", "t.md"):
        Path(name).write_bytes(reviews.read_bytes())
    with pytest.raises(InputError) as caught:
        new(Path("p"), text=text, column=columns[0], label=columns[1])
    assert str(caught.value).startswith(expected)
    assert not Path("p").exists()


def test_a_folder_with_content_and_a_wrong_name_are_refused(tmp_path: Path, reviews: Path) -> None:
    with pytest.raises(InputError, match=r"holds my reviews-2\.csv; give a new or empty folder"):
        made(tmp_path, None, None)
    with pytest.raises(InputError, match="is not a folder"):
        made(reviews.rename(tmp_path / "file"), None, None)
    (tmp_path / "file").rename(reviews)
    with pytest.raises(InputError, match="project 'my study': expected letters"):
        made(tmp_path / "my study", None, None)
    with pytest.raises(InputError, match=r"--profile minilmm: no such profile .* did you mean 'minilm'"):
        made(tmp_path / "p", reviews, profile="minilmm")
    assert [*tmp_path.iterdir()] == [reviews]


def test_without_an_author_git_commits_nothing_and_it_says_so(
    tmp_path: Path, reviews: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for role in ("AUTHOR", "COMMITTER"):
        for part in ("NAME", "EMAIL"):
            monkeypatch.delenv(f"GIT_{role}_{part}")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("EMAIL", raising=False)
    (note,) = made(tmp_path / "p", reviews).notes
    assert note.startswith("git has no user.name and user.email")
    assert (tmp_path / "p/.git").is_dir()
    assert "?? params.yaml" in git(tmp_path / "p", "status", "--porcelain")


def test_a_large_file_is_left_to_dvc(tmp_path: Path, reviews: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isoscope.platform.stages.new.LARGE", 100)
    found = made(tmp_path / "p", reviews)
    assert "dvc add 'texts/my reviews-2.csv'" in found.notes[0]
    assert git(found.folder, "ls-files", "texts") == "texts/README.md\n"
    assert git(found.folder, "status", "--porcelain") == ""


def test_the_code_of_a_page_is_more_than_its_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = [
        file for file in (code_closure.PACKAGE / "platform" / "report").iterdir() if file.suffix in code_closure.SHOWN
    ]
    assert shown
    before = {stage: code_closure.stage_version(stage) for stage in ("report", "train")}
    read = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: read(path) + b" " * (path == shown[0]))
    after = {stage: code_closure.stage_version(stage) for stage in ("report", "train")}
    assert before["report"] != after["report"]
    assert before["train"] == after["train"]


MADE = """
import sys
from pathlib import Path
from isoscope.base.errors import InputError
from isoscope.data import task_files
from isoscope.platform.stages.new import new
print("ready", flush=True)
sys.stdin.readline()
try:
    new(Path(sys.argv[1]), text=sys.argv[2], column="review", label="stars")
except InputError as error:
    print(error)
"""


@pytest.mark.parametrize("there", [False, True], ids=["new folder", "empty folder"])
def test_of_three_that_make_one_project_one_does(tmp_path: Path, reviews: Path, there: bool) -> None:
    folder = tmp_path / "mine"
    if there:
        folder.mkdir()
    ends = together(MADE, *([folder, reviews] for _ in range(3)))
    refused = [end for end in ends if end]
    assert len(refused) == 2
    assert all(text.startswith(f"{folder}: ") for text in refused)
    assert git(folder, "status", "--porcelain") == ""


def test_a_folder_in_which_another_has_made_a_project_since_is_left_alone(
    tmp_path: Path, reviews: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other begins and ends between the look at the empty folder and the claim of it."""
    folder = tmp_path / "mine"
    folder.mkdir()
    files = new_module.project_files

    def late(*given: Any) -> Any:
        monkeypatch.setattr(new_module, "project_files", files)
        made(folder, reviews)
        return files(*given)

    monkeypatch.setattr(new_module, "project_files", late)
    with pytest.raises(InputError, match="holds"):
        made(folder, reviews)
    assert git(folder, "status", "--porcelain") == ""
    assert not (folder / ".making").exists()
