"""Secrets kept out of what is stored: passwords, keys and tokens in parameters, diffs and reasons."""

import re
from collections.abc import Mapping
from typing import Any

SCRUBBED = "[scrubbed]"

# What a secret looks like wherever it stands: the published prefixes of providers' tokens, private keys, URLs.
_SHAPES = re.compile(
    r"""(?x)
    (?P<key>-----BEGIN[ A-Z]*PRIVATE\ KEY-----.*?(?:-----END[ A-Z]*PRIVATE\ KEY-----|\Z))
  | (?P<url>(?<=://)[^\s/:@'"]*:[^\s/@'"]+(?=@))                       # user:password@
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
# A name that says secret, and the value given to it. `token` alone is the field's own word, so it needs a long value.
_NAME = r"(?:\w*(?:passw(?:or)?d|passphrase|secret|api_?key|access_?key|private_?key|auth_?token|credential)\w*)"
_GIVEN = re.compile(
    rf"""(?ix)
    (?P<name>\b{_NAME}["']?\s*[:=]\s*["']?)(?P<value>(?!none\b|null\b|true\b|false\b)[^\s"'`,;]{{4,}})
  | (?P<token>\b\w*token["']?\s*[:=]\s*["']?)(?P<long>[A-Za-z0-9_\-.+/=]{{24,}})
    """
)
_SECRET_NAME = re.compile(rf"(?i){_NAME}")


def scrub(text: str) -> str:
    """`text` with every secret replaced by `[scrubbed]`; equal to `text` where there is none."""
    text = _SHAPES.sub(_shape, text)
    return _GIVEN.sub(lambda found: (found["name"] or found["token"]) + SCRUBBED, text)


def scrub_tree(tree: Any, name: str = "") -> Any:
    """A tree of parameters with its secrets replaced, by their look or by the name they are given to."""
    if isinstance(tree, Mapping):
        return {key: scrub_tree(value, str(key)) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [scrub_tree(value, name) for value in tree]
    if isinstance(tree, str):
        return SCRUBBED if tree and _SECRET_NAME.fullmatch(name.rpartition(".")[2]) else scrub(tree)
    return tree


def _shape(found: re.Match[str]) -> str:
    # A key's lines stay as many as they were, so that a diff still reads as one.
    return "\n".join([SCRUBBED] * (found[0].count("\n") + 1)) if found["key"] else SCRUBBED
