"""Text that looks like a secret is not stored; other text stays unchanged."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from isoscope.platform.runs.provenance import Git
from isoscope.platform.runs.record import Record, read
from isoscope.platform.runs.secrets import SCRUBBED, scrub, scrub_run, scrub_tree

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
    ("Authorization: Bearer abc.DEF-123_456", "abc.DEF-123"),
    ("Authorization: Basic dXNlcjpwYXNzd29yZA==", "dXNlcjpw"),
    ("curl -H 'Authorization: token k9f8d7s6a5'", "k9f8d7s6a5"),
    ('{"Authorization": "Bearer k9f8d7s6a5"}', "k9f8d7s6a5"),
    ("headers = {'X-Api-Key': 'k9f8d7s6'}", "k9f8d7s6"),
    ("X-Auth-Token: k9f8d7s6", "k9f8d7s6"),
    ("Cookie: sessionid=k9f8d7s6; csrftoken=ab12cd34", "k9f8d7s6"),
    ("Set-Cookie: sid=k9f8d7s6a; Path=/", "k9f8d7s6a"),
    ("pwd=hunter22", "hunter22"),
    ("export PGPASSWORD=hunter22", "hunter22"),
    ("MYSQL_PWD=hunter22", "hunter22"),
    ("db_passwd: hunter22", "hunter22"),
    ("DB_PASS=hunter22", "hunter22"),
    ("  pass: hunter22", "hunter22"),
    ("https://host/x?token=k9f8d7s6", "k9f8d7s6"),
    ("https://host/x?a=1&access_token=k9f8d7s6&b=2", "k9f8d7s6"),
    ("https://acc.blob.core.windows.net/c?sv=2020&sig=k9f8d7s6%2Babc", "k9f8d7s6"),
    ("https://b.s3.amazonaws.com/k?X-Amz-Signature=0123abcdef4567", "0123abcdef4567"),
    ("https://host/x?api_key=k9f8d7s6", "k9f8d7s6"),
    ("https://host/x?key=k9f8d7s6a5", "k9f8d7s6a5"),
    ("mysql --password hunter22 -h x", "hunter22"),
    ("mysql --password=hunter22", "hunter22"),
    ("tool --token k9f8d7s6a5", "k9f8d7s6a5"),
    ("tool --api-key k9f8d7s6", "k9f8d7s6"),
    ("curl -u user:hunter22 https://host", "hunter22"),
    ("curl --user me:hunter22 https://host", "hunter22"),
    ("sshpass -p hunter22 ssh host", "hunter22"),
    ("postgresql://user:let@me@in@host/db", "let@me"),
    ("postgresql://user:p@ss@host/db", "p@ss"),
    ("mysql://u:a/b@c@host/db", "a/b@c"),
    ("redis://:hunter22@host:6379/0", "hunter22"),
    ("mongodb+srv://u:hunter22@c0.example.net/db", "hunter22"),
    ("postgresql://u:hunter22@[::1]:5432/db", "hunter22"),
    ("host=x user=me password=hunter22 dbname=y", "hunter22"),
    ("Server=x;User Id=me;Pwd=hunter22;Database=d", "hunter22"),
    ("Server=x;Password=hun;ter22", "hun"),
    ("DefaultEndpointsProtocol=https;AccountName=a;AccountKey=abCD12+/==;EndpointSuffix=x", "abCD12"),
    ("SharedAccessKey=abCD12+/abCD=", "abCD12"),
    ('{"password": "hunter22", "user": "me"}', "hunter22"),
    ('{\\"password\\": \\"hunter22\\"}', "hunter22"),
    ('{"password": "hun\\"ter22x"}', "ter22x"),
    ('{"token": "k9f8d7s6a5b4"}', "k9f8d7s6a5b4"),
    ("password: abc", "abc"),
    ("hub_token: k9f8d7s6a5", "k9f8d7s6a5"),
    ("export HF_TOKEN=k9f8d7s6a5", "k9f8d7s6a5"),
    ("GITHUB_TOKEN=k9f8d7s6a5", "k9f8d7s6a5"),
    ("WANDB_API_KEY=0123456789abcdef0123456789abcdef01234567", "0123456789abcdef"),
    ("MLFLOW_TRACKING_PASSWORD=hunter22", "hunter22"),
    ("MLFLOW_TRACKING_TOKEN=k9f8d7s6a5", "k9f8d7s6a5"),
    ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "wJalrX"),
    ("aws_session_token = FwoGZXIvYXdzEJr", "FwoGZX"),
    ("machine host login me password hunter22", "hunter22"),
    ("localhost:5432:db:me:hunter22", "hunter22"),
    ("//registry.npmjs.org/:_authToken=k9f8d7s6-1234", "k9f8d7s6"),
    ('"auth": "dXNlcjpwYXNzd29yZA=="', "dXNlcjpw"),
    ("-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNz\n-----END OPENSSH PRIVATE KEY-----", "b3BlbnNz"),
    ("-----BEGIN PGP PRIVATE KEY BLOCK-----\nlQOYBF\n-----END PGP PRIVATE KEY BLOCK-----", "lQOYBF"),
    ("sk_live_4eC39HqLyjWDarjtT1", "4eC39"),
    ("https://hooks.slack.com/services/T00000000/B00000000/XXXXXXXXXXXX24", "XXXXXXXXXXXX24"),
    ('"private_key_id": "0123abcd0123abcd"', "0123abcd0123"),
    ("dckr_pat_abcdEFGH1234-_xyzXYZ", "abcdEFGH"),
    ("npm_abcdefABCDEF0123456789abcdefABCDEF01", "abcdefAB"),
    ("connect(password='hunter22')", "hunter22"),
    ("login(token='k9f8d7s6a5')", "k9f8d7s6a5"),
    ("os.environ['DB_PASSWORD'] = 'hunter22'", "hunter22"),
    ("secret => 'topsecret'", "topsecret"),
    (":password => 'hunter22'", "hunter22"),
    ('password := "hunter22"', "hunter22"),
    ("<password>hunter22</password>", "hunter22"),
    ("os.getenv('API_KEY', 'k9f8d7s6')", "k9f8d7s6"),
    ("password: |\n  hunter22", "hunter22"),
    ("passphrase: correct horse", "horse"),
    ("bot123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw0", "AAHdq"),
    ("client_secret: abc8Q~abcdefghijklmnop", "abc8Q"),
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
    "tokens: 300",
    "token_class: words",
    "pass_through: true",
    "max_tokens: 128",
    "commit 9d654f0a1b2c3d4e5f60718293a4b5c6d7e8f901",
    "sha256: 0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f",
    "key: value",
    "auth: none",
    "token: word",
    "tokens=['the', 'a']",
    "pad_token: [PAD]",
    "token_ids = tokenizer(text)",
    "eos_token_id: 102",
    "password: null",
    "bypass: 3",
    "compass=north",
    "passes: 3",
    "for token in tokens:",
    "token = tokens[0]",
    "pwd",
    "cd $(pwd)",
    "$PWD/src",
    "signature: transformer",
    "design: 2 x 2",
    "sig: 0.05",
    "cookie cutter",
    "a: b@c",
    "pass",
    "    pass",
    "passed: 12",
    "--tokens 300",
    "--passes 2",
    "tokenizer: {kind: trained, vocab_size: 100}",
    "special_tokens = ('[PAD]', '[UNK]')",
    "def scrub(token: str) -> str:",
    "token: str",
    "token: int = 3",
    "next_token = logits.argmax(-1)",
    "cls_token='[CLS]'",
    "unk_token: '[UNK]'",
    "key=lambda item: item[0]",
    "sort(key=len)",
    "params['token_embeddings']",
    "word_token: add",
    "secrets.py",
    "return password",
    "--user me",
    "curl -u",
    "uv run -p 3.11",
    "python -p 5000",
    "Bearer of news",
    "the bearer is here",
    "basic: true",
    "Basic blocks",
    "auth_token: null",
    "https://example.org/?page=3&sort=asc",
    "user@example.org:path/file",
    "git@github.com:me/repo.git",
    "ssh://git@github.com/me/repo",
    "sentence1: token sequence",
    "token accuracy: 0.93",
    "bleu: 13a",
    "tokenize: 13a",
    "pass_rate: 0.95",
    "token_type: add",
    "pass: 1",
    "passing=True",
    "token: 0.5",
    "token=True",
    "-  tokens: 300\n+  tokens: 400",
    "n_tokens = 12345678",
    "forward_pass: 1024",
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


def test_hashes_and_axes_are_none_whatever_they_are_called() -> None:
    """A task `auth` has the input data/processed/auth; its hash says what the run read."""
    told = {
        "inputs": {"data/processed/auth": "0" * 32},
        "plugins": {"plugins/token.py": "1" * 64},
        "axes": {"token": "one"},
    }
    command = {"isoscope.command": "isoscope geometry m --text https://me:hf_aB3aB3aB3aB3aB3aB3aB3@host/x.csv"}
    assert "hf_" not in str(scrub_run({"tags": command}))
    assert scrub_run({"digest": "2" * 64, **told, "params": {"api_key": "mine"}}) == {
        "digest": "2" * 64,
        **told,
        "params": {"api_key": SCRUBBED},
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


@pytest.mark.parametrize(
    "words, value, said",
    [
        (("search", "status", "--storage", "mysql://me:hunter22@host/db"), "hunter22", "mysql://me:***@host/db"),
        (("search", "status", "--storage", "postgresql://me:hunter22@"), "hunter22", "storage"),
        (
            ("search", "status", "--storage", "mysql://host/db?password=hunter22"),
            "hunter22",
            "mysql://host/db?password=",
        ),
        (("ui", "--port", "1"), "hunter22", "isoscope: "),
        (("train", "https://me:hunter22@host", "x"), "hunter22", "studies."),
        (("check", "-S", "password=hunter22"), "hunter22", "known: plugins"),
    ],
)
def test_an_error_shows_none(words: tuple[str, ...], value: str, said: str) -> None:
    """Each error of a command is printed by one function."""
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "isoscope", *words]
    environment = {**os.environ, "MLFLOW_TRACKING_URI": "https://me:hunter22@host"}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert said in done.stderr
    assert value not in done.stderr
    assert done.stderr.count("\n") == 1
