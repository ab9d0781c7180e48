"""Which runs of other studies a run starts from (`model.encoder.kind`: run or hybrid)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from isoscope.base import paths
from isoscope.base.errors import InputError
from isoscope.platform.config.explain import nearest
from isoscope.platform.config.model import Model

if TYPE_CHECKING:
    from isoscope.platform.config.load import Configuration


def start_cells(configuration: "Configuration", study: str, model: Model, seed: int) -> dict[str, tuple[str, str, int]]:
    """Return the cells (study, arm, seed) that a run of `study` starts from, by their part of its section `model`.

    Raises `InputError` if there is no such arm or next seed, if several seeds of the study would start from one run,
    and if the other study has another task.
    """
    own, found = configuration.study(study), {}
    for name, part in model.starts.items():
        place, other = f"{paths.PARAMS}: studies.{study}: model.encoder", configuration.study(part.study)
        if part.arm not in (arms := configuration.arms(part.study)):
            raise InputError(f"{place}: study {part.study!r} has no arm {part.arm!r}{nearest(part.arm, arms)}")
        if other.task != own.task:
            raise InputError(f"{place}: study {part.study!r} has task {other.task!r}, but this study has {own.task!r}")
        found[name] = part.study, part.arm, seed
        if part.seed == "next":
            following = _following(seed, other.seeds)
            if following == seed:
                raise InputError(f"{place}: no seed after {seed}; study {part.study!r} has seeds {list(other.seeds)}")
            if len({_following(one, other.seeds) for one in own.seeds}) < len(own.seeds):  # not independent runs
                raise InputError(
                    f"{place}: several seeds of {study!r} would start from one run; study {part.study!r} has seeds "
                    f"{list(other.seeds)}: give it as many"
                )
            found[name] = part.study, part.arm, following
    return found


def _following(seed: int, seeds: Sequence[int]) -> int:
    """Return the next larger of some seeds, else the smallest; without seeds, the seed itself."""
    return min((one for one in seeds if one > seed), default=min(seeds, default=seed))
