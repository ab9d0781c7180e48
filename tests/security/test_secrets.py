"""Text that looks like a secret is not stored; other text stays unchanged."""

import time
from pathlib import Path

import pytest

from isoscope.runs.provenance import Git
from isoscope.runs.record import Record, read
from isoscope.runs.secrets import SCRUBBED, scrub, scrub_tree

SECRETS = [
    "AKIAIOSFODNN7EXAMPLE",
    "hf_" + "aB3" * 12,
    "ghp_" + "x1Y2" * 9,
    "github_pat_" + "11ABCDEFG0" * 4,
    "glpat-" + "abcd1234" * 3,
    "xoxb-123456789012-abcdefghij",
    "sk-" + "proj1234" * 5,
    "AIza" + "S" * 35,
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
    "-----BEGIN RSA PRIVATE KEY-----\n+MIIEow\n+IBAAKC\n-----END RSA PRIVATE KEY-----",
]
ASSIGNED = [
    ("password: hunter22", "hunter22"),
    ('DB_PASSWORD="correct horse battery"', "battery"),
    ("password: ab,cdefgh", "cdefgh"),
    ("https://1234567890abcdef@host/x", "1234567890abcdef"),
    ("https://user:p/w@host/x", "p/w"),
    ("api_key = 'k9f8d7s6'", "k9f8d7s6"),
    ("client_secret=topsecret1", "topsecret1"),
    ("auth-token: abcd" + "ef12" * 8, "ef12ef12"),
    ("postgresql://user:letmein@host/db", "letmein"),
]
# The words of the field, and digests.
INNOCENT = [
    "model.encoder.tokenizer.kind: checkpoint",
    "token_type: add",
    "max_tokens: 128",
    'pad_token="[PAD]"',
    "tokenizer: bert-base-uncased",
    "sentence-transformers/all-MiniLM-L6-v2",
    "+    secret_santa = None",
    "sha256 " + "0f" * 32,
    "https://example.org/path:80",
    "learning_rate: 1e-3",
    "class Secret:\n    number = 3",
    "mail somebody@example.org, see https://example.org/a",
]


@pytest.mark.parametrize("secret", SECRETS, ids=lambda text: text[:12])
def test_the_look_of_a_secret_is_enough(secret: str) -> None:
    text = f"+remote = {secret} # mine\n+next line\n"
    assert secret.splitlines()[-1] not in scrub(text)
    assert SCRUBBED in scrub(text)
    assert "next line" in scrub(text)
    assert scrub(text).count("\n") == text.count("\n")


@pytest.mark.parametrize("text, value", ASSIGNED)
def test_the_name_it_is_given_to_is_enough(text: str, value: str) -> None:
    assert value not in scrub(f"-{text}\n")


@pytest.mark.parametrize("text", INNOCENT)
def test_nothing_else_is_touched(text: str) -> None:
    assert scrub(text) == text


def test_the_project_itself_holds_nothing_that_looks_like_one() -> None:
    """The package's own sources pass unchanged, so a usual diff is stored as it is."""
    root = Path(__file__).parents[2]
    for path in (*root.glob("src/**/*.py"), *root.glob("variants/**/*.yaml"), root / "params.yaml"):
        if path.name != "secrets.py":
            text = path.read_text("utf-8")
            assert scrub(text) == text, path


def test_a_tree_is_scrubbed_by_name_and_by_look() -> None:
    tree = {"data": {"source": {"password": "x", "url": "https://me:word@host/x", "names": [SECRETS[0], "fine"]}}}
    found = scrub_tree(tree)["data"]["source"]
    assert found == {"password": SCRUBBED, "url": f"https://{SCRUBBED}@host/x", "names": [SCRUBBED, "fine"]}
    assert tree["data"]["source"]["password"] == "x"
    assert scrub_tree({"hf_token": "0f" * 16, "secret": {"value": "abc"}}) == {
        "hf_token": SCRUBBED,
        "secret": {"value": SCRUBBED},
    }
    assert scrub_tree({"data.source.api_key": "abc", "training.epochs": 3}) == {
        "data.source.api_key": SCRUBBED,
        "training.epochs": 3,
    }


def test_neither_record_nor_diff_ever_holds_one(tmp_path: Path) -> None:
    git = Git("0" * 40, f"+key = {SECRETS[0]}\n")
    assert git.scrubbed
    assert git.dirty
    with Record(tmp_path / "records" / "r.jsonl") as record:
        record.run(digest="d", stage="train", params={"data.source.password": "hunter22"})
        record.attempt(git=git, environment={})
        record.end("FAILED", reason="OSError: https://me:hunter22@host refused")
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()).decode()
    assert "hunter22" not in stored
    assert SECRETS[0] not in stored
    assert read(tmp_path / "records" / "r.jsonl").attempts[0].git["scrubbed"]
    assert not Git("0" * 40, "+epochs: 3\n").scrubbed


@pytest.mark.parametrize("text", ["secret" * 20_000, "a" * 100_000, "https://" + "x" * 100_000, "token=" * 20_000])
def test_hostile_text_takes_no_time(text: str) -> None:
    began = time.process_time()
    scrub(text)
    assert time.process_time() - began < 5
