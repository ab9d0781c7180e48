"""Remove secrets before storing: passwords, keys and tokens in parameters, diffs and reasons."""

import re
from collections.abc import Mapping
from typing import Any

SCRUBBED = "[scrubbed]"

# Secrets that their form reveals: providers' token prefixes, private keys, credentials in URLs.
_SHAPES = re.compile(
    r"""(?x)
    (?P<key>-----BEGIN[ A-Z]*PRIVATE\ KEY(?:\ BLOCK)?-----.*?(?:-----END[ A-Z]*PRIVATE\ KEY(?:\ BLOCK)?-----|\Z))
  | (?<=://)(?![^\s'"/@:]{1,200}:(?:\d+/|\*\*\*@))                       # not HOST:PORT/, nor a hidden password
    [^\s'"/@:]{0,200}:[^\s'"]{1,200}(?=@[\w.\[-])                        # user:password@
  | (?:(?<=http://)|(?<=https://))[^\s'"/@:]{1,200}(?=@[\w.\[-])         # token@
  | (?<=://hooks\.slack\.com/services/)[\w/]+                            # Slack
  | \bBearer\ +(?=[^\s"']{0,40}\d)[\w.~+/=-]{8,}                         # of a header
  | \bbot\d{8,}:[\w-]{30,}                                               # Telegram
  | \b(?:AKIA|ASIA)[0-9A-Z]{16}\b                                        # AWS
  | \bhf_[A-Za-z0-9]{20,}\b                                              # Hugging Face
  | \bgh[pousr]_[A-Za-z0-9]{20,}\b | \bgithub_pat_[A-Za-z0-9_]{20,}\b    # GitHub
  | \bglpat-[A-Za-z0-9_-]{20,}\b                                         # GitLab
  | \bdckr_pat_[A-Za-z0-9_-]{16,}                                        # Docker
  | \bnpm_[A-Za-z0-9]{30,}\b                                             # npm
  | \bpypi-[A-Za-z0-9_-]{40,}\b                                          # PyPI
  | \bxox[abprs]-[A-Za-z0-9-]{10,}\b                                     # Slack
  | \b[sr]k_(?:live|test)_[A-Za-z0-9]{10,}\b                             # Stripe
  | \bsk-[A-Za-z0-9_-]{20,}\b                                            # OpenAI, Anthropic
  | \bAIza[A-Za-z0-9_-]{35}\b                                            # Google
  | \beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]+      # JSON web token
    """,
    re.DOTALL,
)
_NAME = (
    r"(?:\w{0,40}(?:passw(?:or)?d|passphrase|pwd|secret|credential|(?:api|access|account|private)[_-]?key"
    r"|(?:auth|session|access|tracking)[_-]?token)\w{0,40})"
)
# These are common words in this field, so their value must look like a secret: letters, digits, and nothing of code.
_COMMON = r"(?:(?:\w{0,40}[_-])?(?:token|pass|auth|sig|signature)|(?<=[?&])key)"
_LOOK = r"(?=[\w.+/=%~-]{8})(?=(?:[^\s\d]{0,80}\d){2})(?=[^\sA-Za-z]{0,80}[A-Za-z])[\w.+/=%~-]+(?![\w(\[])"
_IS = r"""(?:\\?["'])?\]?[ \t]*(?::=|=>|[:=])[ \t]*"""
_UNQUOTED = r"(?!(?:none|null|true|false|str|bytes)\b)(?![/$])[^\s\"'`<>\\]{3,}"
_QUOTED = r"""(?:\\"[^"\n]{3,}"|"(?:\\.|[^"\\\n]){3,}"|'(?:\\.|[^'\\\n]){3,}')"""
# A secret's name and its value on the same line; the name, group 1, is kept.
_GIVEN = [
    re.compile(pattern, re.IGNORECASE | re.MULTILINE)
    for pattern in (
        rf"(^[-+ ]?[ \t]*{_NAME}[ \t]*[:=][ \t]+){_UNQUOTED}(?:(?![ \t]#)[^\n\"'])*$",  # a text of several words
        rf"(^[-+ ]?[ \t]*{_NAME}:[ \t]*[|>][-+\d]*\n[-+ ]?[ \t]+)[^\n]+",  # YAML's block of text
        rf"(\b{_NAME}{_IS})(?:{_QUOTED}|{_UNQUOTED})",
        rf"((?:getenv|environ\.get)\([\"']{_NAME}[\"'],[ \t]*){_QUOTED}",
        rf"(<{_NAME}>)[^<\n]+",
        rf"(\b{_COMMON}{_IS})[\"']?{_LOOK}[\"']?",
        rf"(\b\w{{0,40}}token{_IS})[\"']?[\w.+/=-]{{24,}}[\"']?",
        r"(\b(?:authorization|(?:set-)?cookie)[\"']?[ \t]*[:=][ \t]*[\"']?)[^\"'\n]{6,}",
        r"(\B--?(?:[a-z]+-)*(?:passw(?:or)?d|passphrase|secret|(?:api|access)-?key)[ =]+)[^\s-]\S{2,}",
        rf"(\B--?(?:[a-z]+-)*(?:token|pass)[ =]+){_LOOK}",
        r"((?:[ \t]-u|--user)[ =]+[\w.@-]+:)\S{3,}",
        r"(\bsshpass[ \t]+-p[ \t]*)\S{3,}",
        r"(\blogin[ \t]+\S+[ \t]+password[ \t]+)\S{3,}",  # .netrc
        r"(^[-+ ]?[\w.*-]+:\d{4,5}:[\w*-]+:[\w*-]+:)[^\s:]{3,}$",  # .pgpass
    )
]
_SECRET_NAME = re.compile(rf"(?i){_NAME}|\w{{0,40}}(?:access|auth|api|bearer|hub|hf)_?token")


def scrub(text: str) -> str:
    """Return `text` with every secret replaced by `[scrubbed]`; unchanged if it has none."""
    text = _SHAPES.sub(_shape, text)
    for pattern in _GIVEN:
        text = pattern.sub(lambda found: found[1] + SCRUBBED, text)
    return text


_OWN = ("digest", "code", "inputs", "plugins", "tags", "axes")
"""Fields of a run with isoscope's own hashes and names, in which the name of a file or an axis tells no secret."""


def scrub_run(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a run with its secrets replaced, found by form, and in its parameters also by name."""
    return {name: _by_form(value) if name in _OWN else scrub_tree(value, name) for name, value in fields.items()}


def _by_form(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _by_form(one) for name, one in value.items()}
    return scrub(value) if isinstance(value, str) else value


def scrub_tree(tree: Any, name: str = "") -> Any:
    """Return a parameter tree with its secrets replaced, found by form or by name."""
    if isinstance(tree, Mapping):
        inherited = name if _SECRET_NAME.fullmatch(name) else ""
        return {key: scrub_tree(value, inherited or str(key).rpartition(".")[2]) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [scrub_tree(value, name) for value in tree]
    if isinstance(tree, str):
        named = f"{name}: "
        hidden = bool(tree) and (_SECRET_NAME.fullmatch(name) or scrub(named + tree) == named + SCRUBBED)
        return SCRUBBED if hidden else scrub(tree)
    return tree


def _shape(found: re.Match[str]) -> str:
    # Keep the number of lines of a key, so that a diff stays valid.
    return "\n".join([SCRUBBED] * (found[0].count("\n") + 1)) if found["key"] else SCRUBBED
