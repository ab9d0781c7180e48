"""What determines a run's digest, and its names."""

import hashlib
import json
from typing import Any, NamedTuple

from isoscope.base.code_closure import code_of, code_version
from isoscope.platform.config.tree import NOT_IN_DIGEST, Tree, flatten


class Identity(NamedTuple):
    """Identity of a run: what determines its digest, and its names.

    - `inputs`: role → hash; part of the digest. `input_paths`: path → hash, for readers.
    - `plugins`: file name → sha256 of its code.
    - `used`: modules of the built-in kinds that the parameters name; None: of all that the stage can load.
    - `loads`: modules of the kind of study; None: those that `built_in.LOADS` names for the stage.
    """

    stage: str
    study: str | None
    arm: str | None
    seed: int | None
    task: str | None
    axes: dict[str, str]
    params: Tree
    inputs: dict[str, str]
    input_paths: dict[str, str]
    plugins: dict[str, str]
    used: tuple[str, ...] | None = None
    loads: tuple[str, ...] | None = None

    @property
    def code(self) -> str:
        return code_version(self.stage, self.used, self.loads)

    @property
    def digest(self) -> str:
        return self.digest_under(self.code)

    @property
    def functions(self) -> dict[str, dict[str, str]]:
        """Functions of the code by file, each with its hash."""
        return code_of(self.stage, self.used, self.loads)

    def digest_under(self, code: str) -> str:
        """Return the sha256 (hex) of stage name, resolved sections, seed, inputs, plugins and a code version.

        Names of studies, arms and files are excluded: the same work under another name is the same run.
        """
        identity = {
            "stage": self.stage,
            "params": {name: value for name, value in flatten(self.params).items() if name not in NOT_IN_DIGEST},
            "seed": self.seed,
            "inputs": self.inputs,
            "code": code,
            "plugins": sorted(self.plugins.values()),
        }
        return hashlib.sha256(json.dumps(identity, sort_keys=True, allow_nan=False).encode()).hexdigest()

    @property
    def title(self) -> str:
        """Title of the run in logs."""
        name = self.arm or f"{self.stage} {self.study or ''}".strip()
        return name if self.seed is None else f"{name} seed {self.seed}"

    @property
    def names(self) -> dict[str, Any]:
        """Stage, study, arm, seed, task and axes."""
        return {name: getattr(self, name) for name in ("stage", "study", "arm", "seed", "task", "axes")}
