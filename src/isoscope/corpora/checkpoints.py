"""A published checkpoint as a folder on this machine."""

from pathlib import Path

from isoscope.corpora.hub import CHECKPOINT_FILES, VARIABLE, resolve_checkpoint
from isoscope.errors import InputError


def fetch_checkpoint(name: str, *, revision: str) -> Path:
    """The folder of checkpoint `name`: below ISOSCOPE_HUB, or fetched from the hub at `revision`.

    Only weights in safetensors, configuration and tokenizer files are fetched. Raises `InputError` where neither has
    it.
    """
    found = resolve_checkpoint(name)
    if found != name:
        return Path(found)
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
