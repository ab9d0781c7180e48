"""Every corner of a search's space is a valid run: no trial sets a name that does not exist."""

from collections.abc import Container
from typing import TYPE_CHECKING

from isoscope.base import paths
from isoscope.base.errors import InputError
from isoscope.platform.config.explain import Faults, nearest
from isoscope.platform.config.searching import corners

if TYPE_CHECKING:
    from isoscope.platform.config.load import Configuration


def check_search(configuration: "Configuration", known: Container[str] = ()) -> None:
    """Resolve every corner of the search space, so that no trial sets a name that does not exist.

    Lines in `known` are not repeated.
    """
    root, found = configuration.root, Faults()
    search = root.search
    if search is None:
        return
    for key, value in (("study", search.study), ("arm", search.arm)):
        names = root.studies if key == "study" else configuration.arms(search.study)
        if value not in names:
            raise InputError(f"{paths.PARAMS}: search.{key}: no {key} {value!r}{nearest(value, names)}")
    under: dict[str, str] = {}
    for chosen in corners(search):
        axes = ", ".join(f"{name} {value}" for name, value in chosen.items() if "." not in name)
        more = f" (under {axes}; restrict the name with `when`)" if axes else ""
        try:
            keep = configuration.cell(search.study, search.arm, chosen, search.settings).cell.training.keep
        except InputError as error:
            under |= {line: more for line in error.lines if line not in under}
            continue
        if keep != "best":
            cure = "a search keeps only the best checkpoint; set it to best"
            found.keep(f"{paths.PARAMS}: search: training.keep is {keep!r} in its trials, but {cure}")
    found.keep(*(f"{line}{more}" for line, more in under.items() if line not in known))
    found.stop()
