"""A published checkpoint as a folder on this machine."""

import json
from pathlib import Path

from isoscope.corpora.hub import CHECKPOINT_FILES, VARIABLE, resolve_checkpoint
from isoscope.errors import InputError


def fetch_checkpoint(name: str, *, revision: str) -> Path:
    """The folder of checkpoint `name`: below ISOSCOPE_HUB, or fetched from the hub at `revision`.

    Only weights in safetensors, configuration and tokenizer files are fetched. Raises `InputError` where neither has
    it.
    """
    found = resolve_checkpoint(name)
    return _without_code(Path(found) if found != name else _download(name, revision))


def _without_code(folder: Path) -> Path:
    """`folder`, unless its configuration or tokenizer asks for Python code of its own, which is never run here."""
    for name in ("config.json", "tokenizer_config.json"):
        try:
            settings = json.loads((folder / name).read_text("utf-8"))
        except FileNotFoundError:
            continue
        except ValueError as error:
            raise InputError(f"{folder / name}: not JSON ({error})") from None
        for key in ("auto_map", "custom_pipelines"):
            if isinstance(settings, dict) and settings.get(key):
                raise InputError(f"{folder / name}: asks for code of its own ({key}), and none is run; take another")
    return folder


def _download(name: str, revision: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled

    try:
        return Path(snapshot_download(name, revision=revision, allow_patterns=list(CHECKPOINT_FILES)))
    except (HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(
            f"checkpoint {name!r} at revision {revision!r}: the hub gave no answer ({reason}); "
            f"set {VARIABLE} to a folder that holds {name}/"
        ) from error
