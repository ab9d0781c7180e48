"""Send a project and its configuration to another node of a cluster."""

import socket
from functools import cached_property
from typing import Any

from isoscope import paths, used
from isoscope.code import code_version
from isoscope.config.load import Configuration
from isoscope.errors import InputError


class Setup:
    """A project, its configuration, and the stage that works with them.

    Only plain values travel to another node, which needs the project at the same path.
    """

    def __init__(self, configuration: Configuration, project: paths.Project, stage: str) -> None:
        self.project, self.stage, self.configuration = project, stage, configuration

    def __getstate__(self) -> dict[str, Any]:
        known = self.configuration
        return {
            "project": self.project,
            "stage": self.stage,
            "params": known.raw,  # current content of params.yaml
            "given": known.given,
            "plugins": [path.resolve() for path in known.extra_plugins],
            "code": code_version(self.stage, used.EVERY),
        }

    @cached_property
    def configuration(self) -> Configuration:
        """The configuration. Raises `InputError` if the project is missing here, or has other code or overlays."""
        here, state, folder = f"node {socket.gethostname()}", self.__dict__, self.project.folder
        if not (folder / paths.PARAMS).is_file():
            raise InputError(
                f"{here}: no project at {folder}; all nodes need it at the same path, as on a shared file system"
            )
        if state["code"] != code_version(self.stage, used.EVERY):
            raise InputError(f"{here}: its isoscope has other code; install the same version on all nodes")
        try:
            return Configuration(folder, state["given"], state["plugins"], raw=state["params"])
        except InputError as error:
            raise InputError(f"{here}: {error}") from None
