"""Remove secrets before storing: passwords, keys and tokens in parameters, diffs and reasons."""

import re
from collections.abc import Mapping
from typing import Any

SCRUBBED = "[scrubbed]"

# Secrets that their form reveals: providers' token prefixes, private keys, credentials in URLs.
_SHAPES = re.compile(
    r"""(?x)
    (?P<key>-----BEGIN[ A-Z]*PRIVATE\ KEY-----.*?(?:-----END[ A-Z]*PRIVATE\ KEY-----|\Z))
  | (?P<url>(?<=://)[^\s@'"]{1,200}(?=@[\w.-]+))                          # user:password@, token@
  | \b(?:AKIA|ASIA)[0-9A-Z]{16}\b                                        # AWS
  | \bhf_[A-Za-z0-9]{20,}\b                                              # Hugging Face
  | \bgh[pousr]_[A-Za-z0-9]{20,}\b | \bgithub_pat_[A-Za-z0-9_]{20,}\b    # GitHub
  | \bglpat-[A-Za-z0-9_-]{20,}\b                                         # GitLab
  | \bpypi-[A-Za-z0-9_-]{40,}\b                                          # PyPI
  | \bxox[abprs]-[A-Za-z0-9-]{10,}\b                                     # Slack
  | \bsk-[A-Za-z0-9_-]{20,}\b                                            # OpenAI, Anthropic
  | \bAIza[A-Za-z0-9_-]{35}\b                                            # Google
  | \beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]+      # JSON web token
    """,
    re.DOTALL,
)
# A secret's name followed by its value on the same line. `token` is a common word in this field, so it needs a long
# value.
_NAME = (
    r"(?:\w{0,40}(?:passw(?:or)?d|passphrase|secret|api_?key|access_?key|private_?key|auth_?token|credential)\w{0,40})"
)
_GIVEN = re.compile(
    rf"""(?ix)
    (?P<name>\b{_NAME}["']?[ \t]*[:=][ \t]*)
    (?: "[^"\n]{{4,}}" | '[^'\n]{{4,}}' | (?!(?:none|null|true|false)\b)[^\s"'`]{{4,}} )
  | (?P<token>\b\w{{0,40}}token["']?[ \t]*[:=][ \t]*) ["']?[A-Za-z0-9_\-.+/=]{{24,}}["']?
    """
)
_SECRET_NAME = re.compile(rf"(?i){_NAME}|\w{{0,40}}(?:access|auth|api|bearer|hub|hf)_?token")


def scrub(text: str) -> str:
    """Return `text` with every secret replaced by `[scrubbed]`; unchanged if it has none."""
    text = _SHAPES.sub(_shape, text)
    return _GIVEN.sub(lambda found: (found["name"] or found["token"]) + SCRUBBED, text)


def scrub_tree(tree: Any, name: str = "") -> Any:
    """Return a parameter tree with its secrets replaced, found by form or by name."""
    if isinstance(tree, Mapping):
        inherited = name if _SECRET_NAME.fullmatch(name) else ""
        return {key: scrub_tree(value, inherited or str(key).rpartition(".")[2]) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [scrub_tree(value, name) for value in tree]
    if isinstance(tree, str):
        return SCRUBBED if tree and _SECRET_NAME.fullmatch(name) else scrub(tree)
    return tree


def _shape(found: re.Match[str]) -> str:
    # Keep the number of lines of a key, so that a diff stays valid.
    return "\n".join([SCRUBBED] * (found[0].count("\n") + 1)) if found["key"] else SCRUBBED
