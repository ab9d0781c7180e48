"""Views of `isoscope geometry`, in the order of the page: measures by kind of vectors, then the other analyses."""

from dataclasses import replace

from isoscope.base.view import View, under
from isoscope.states.shown_metrics import PROFILES
from isoscope.studies.geometry.checkpoint_views import (
    ATTENTION,
    BLOCK,
    KINDS,
    LEARNING,
    PLANES,
    PROBING,
    SPECTRUM,
    TOPOLOGY,
    group,
    heads,
)
from isoscope.studies.geometry.last_layer import BASELINES, DISTANCES, FLATNESS, MEASURED, OUTLIERS, PAIRS, PROBED
from isoscope.studies.spaces import maps_between, similarity_maps
from isoscope.studies.spaces.contexts_by_layer import COUNTS

GROUPS = PROFILES | {"Measures of plugins": ()}
SECTIONS: dict[str, tuple[View, ...]] = {
    "planes": (PLANES,),
    "probing": (PROBING, LEARNING, PROBED, BASELINES),
    "attention": (ATTENTION, *map(heads, ("entropy", "first"))),
    "embedding": (*BLOCK, PAIRS, OUTLIERS),
    "spectrum": (*SPECTRUM, FLATNESS),
    "topology": (*TOPOLOGY, DISTANCES),
    "spaces": (*(replace(view, name="spaces") for view in (*similarity_maps.VIEWS, *maps_between.VIEWS)), COUNTS),
    "measured": (MEASURED,),
}
TITLES = {
    "planes": "Do sentences separate in their principal plane?",
    "probing": "What can a linear probe read?",
    "attention": "Where does attention go?",
    "embedding": "How similar are tokens after the embedding block?",
    "spectrum": "How is variance spread over directions and frequencies?",
    "topology": "Which components and loops persist?",
    "spaces": "Which layers of two checkpoints are alike?",
    "measured": "What are all metrics at the last layer?",
}
VIEWS = (
    *(
        replace(group(name, metrics, kind), question=f"How does the geometry of {called} change by layer?")
        for kind, called in KINDS.items()
        for name, metrics in GROUPS.items()
    ),
    *(view for key, views in SECTIONS.items() for view in under(TITLES[key], *views)),
)
