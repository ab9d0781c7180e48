"""Hub names: folders first, then the hub; a cached revision never replaces another revision."""

import hashlib
import http.server
import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from isoscope.base.errors import InputError
from isoscope.data import hub, task_files
from isoscope.data.corpus import Corpus

COMMIT = "a" * 40
TABLE = pa.table({"text": [f"word {row}" for row in range(20)], "label": [row % 2 for row in range(20)]})
OTHER = pa.table({"text": [f"other {row}" for row in range(10)], "label": [row % 2 for row in range(10)]})
SPLITS = {"train": "train", "validation": None, "test": "test"}
SETTINGS = {"columns": {"sentence": "text", "label": "label"}, "held_out": 0.2, "seed": 0, "licence": "MIT"}
CARD = """---
dataset_info:
  features:
  - name: text
    dtype: string
  - name: label
    dtype:
      class_label:
        names:
          '0': negative
          '1': positive
---
"""


def load(name: str, config: str | None = None, splits: dict[str, str | None] = SPLITS) -> Corpus:
    named = {"kind": "hub", "name": name, "config": config, "revision": "main", "splits": splits}
    return task_files.read(named | SETTINGS, Path())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A second of two hub folders."""
    found = tmp_path / "second"
    for path in (tmp_path / "first", found):
        path.mkdir()
    monkeypatch.setenv("ISOSCOPE_HUB", f"{tmp_path / 'first'}{os.pathsep}{found}")
    return found


def put(folder: Path) -> None:
    folder.mkdir(parents=True)
    pq.write_table(TABLE, folder / "train.parquet")
    pq.write_table(OTHER, folder / "test.parquet")


def test_a_folder_is_read_without_the_hub(folder: Path) -> None:
    put(folder / "org" / "toy")
    put(folder / "glue" / "sst2")
    corpus = load("org/toy")
    assert (corpus.source, corpus.revision) == ("hub:org/toy", None)
    assert {split: table.num_rows for split, table in corpus.splits.items()} == {
        "train": 16,
        "validation": 4,
        "test": 10,
    }
    assert set(corpus.facts["inputs"]) == {"train.parquet", "test.parquet"}
    assert load("glue", "sst2").source == "hub:glue/sst2"
    with pytest.raises(InputError, match=r"splits\.validation: no dev"):
        load("org/toy", splits=SPLITS | {"validation": "dev"})


def test_the_first_folder_that_has_the_name_wins(folder: Path) -> None:
    put(folder / "toy")
    put(folder.parent / "first" / "toy")
    pq.write_table(OTHER.slice(0, 4), folder.parent / "first" / "toy" / "test.parquet")
    assert load("toy").splits["test"].num_rows == 4


def test_out_of_reach_says_what_to_do(folder: Path) -> None:
    with pytest.raises(InputError) as caught:
        load("org/gone")
    message = str(caught.value)
    assert "\n" not in message
    for part in ("org/gone", "revision main", f"ISOSCOPE_HUB ({os.environ['ISOSCOPE_HUB']})", "holds org/gone/"):
        assert part in message
    folder.rmdir()
    with pytest.raises(InputError, match=r"^ISOSCOPE_HUB: .*second is not a folder$"):
        load("org/gone")


@pytest.mark.parametrize("name", ["../x", "a/../b", "/etc", "a//b", "", "a/", ".", "a/b/c", "a b", "a\\b", "a\n"])
def test_names_that_could_lead_elsewhere_are_refused(folder: Path, name: str) -> None:
    for read in (hub.resolve_checkpoint, load, lambda config: load("toy", config or "..")):
        with pytest.raises(InputError, match=r"^hub name "):
            read(name)


def test_a_folder_in_the_working_directory_does_not_pass_for_the_hub(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "here" / "toy")
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(InputError, match=r"^toy: a folder in the working directory"):
        load("toy")


def test_checkpoints_resolve_to_their_folder_or_to_none(folder: Path) -> None:
    checkpoint = folder / "org" / "tiny"
    checkpoint.mkdir(parents=True)
    with pytest.raises(InputError, match=r"no config\.json"):
        hub.resolve_checkpoint("org/tiny")
    (checkpoint / "config.json").write_text("{}")
    assert hub.resolve_checkpoint("org/tiny") == checkpoint
    assert hub.resolve_checkpoint("org/other") is None


class FakeHub(http.server.BaseHTTPRequestHandler):
    """The hub's answers for reading one data set."""

    protocol_version = "HTTP/1.1"
    answers: dict[str, bytes]

    def do_GET(self) -> None:
        body = self.answers.get(self.path.partition("?")[0])
        self.send_response(404 if body is None else 200)
        about = {"X-Error-Code": "EntryNotFound"} if body is None else {"ETag": f'"{hashlib.sha1(body).hexdigest()}"'}
        for key, value in {"Content-Length": str(len(body or b"")), "X-Repo-Commit": COMMIT, **about}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body or b"")

    do_HEAD = do_GET  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def served() -> Iterator[str]:
    files = {"README.md": CARD.encode()}
    for split, table in (("train", TABLE), ("test", OTHER)):
        pq.write_table(table, buffer := io.BytesIO())
        files[f"{split}.parquet"] = buffer.getvalue()
    oids = {name: hashlib.sha1(data).hexdigest() for name, data in files.items()}
    tree = [{"type": "file", "path": name, "size": len(data), "oid": oids[name]} for name, data in files.items()]
    about = {"id": "org/toy", "sha": COMMIT, "siblings": [{"rfilename": name} for name in files]}
    answers = {}
    for revision in ("main", COMMIT):
        answers |= {f"/datasets/org/toy/resolve/{revision}/{name}": data for name, data in files.items()}
        answers[f"/api/datasets/org/toy/tree/{revision}"] = json.dumps(tree).encode()
        answers[f"/api/datasets/org/toy/revision/{revision}"] = json.dumps(about).encode()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("Served", (FakeHub,), {"answers": answers}))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


PROGRAM = f"""
import json, sys
from pathlib import Path
from isoscope.data import task_files
from isoscope.base.errors import InputError
for revision, splits in json.loads(sys.argv[1]):
    try:
        named = dict(kind="hub", name="org/toy", config=None, revision=revision, splits=splits)
        corpus = task_files.read(named | {SETTINGS}, Path())
        rows = [table.num_rows for table in corpus.splits.values()]
        answer = [corpus.revision, corpus.labels, dict(zip(corpus.splits, rows))]
    except InputError as error:
        answer = str(error)
    print(json.dumps(answer))
"""


def test_the_hub_is_read_at_its_commit_and_the_cache_only_for_the_commit_it_holds(served: str, tmp_path: Path) -> None:
    """In processes of their own, since the library settles its addresses when it is imported."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    plain |= {"HF_HOME": str(tmp_path / "home"), "HF_ENDPOINT": served}

    def answers(*asked: tuple[str, dict[str, str | None]], **settings: str) -> list[object]:
        command = [sys.executable, "-c", PROGRAM, json.dumps(asked)]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=plain | settings, check=False)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    there = [COMMIT, ["negative", "positive"], {"train": 16, "validation": 4, "test": 10}]
    assert answers(("main", SPLITS), ("main", SPLITS | {"validation": "dev"})) == [
        there,
        "data set org/toy: splits.validation: no split 'dev'; it has train, test",
    ]
    other = "b" * 40
    assert answers((COMMIT, SPLITS), (other, SPLITS), ("main", SPLITS), HF_HUB_OFFLINE="1") == [
        there,
        f"data set org/toy: asked for revision {other}, but the cache here holds {COMMIT}",
        there,
    ]
