"""Views of spectra: of [CLS], along the hidden index, of the fusion's kernel; noise of gradients."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from isoscope.base.view import Table, View
from isoscope.platform.figures.line_form import Curves
from isoscope.platform.figures.matrix_form import Matrix
from isoscope.platform.figures.snapshots import EVERY, at_chosen, at_ends, prepared, trained
from isoscope.platform.statistics.findings import Untested, by_arm
from isoscope.studies.fusion.layers import why_hatched

COMPONENTS = {
    "kept": "Only the first k components",
    "dropped": "Without the first k components",
    "alone": "Only the k-th component",
}
SMALLEST = 1e-3
"""Lower end of a drawn singular, as a share of the largest singular value."""


def singular(values: pd.DataFrame) -> pd.DataFrame:
    """Return the spectra at the first and the chosen snapshot, without degenerate layers and means near 0."""
    table = at_ends(values)
    means = table.groupby(["arm", "moment", "layer", "component"])["value"].transform("mean")
    return table[~table["degenerate"].astype(bool) & (means >= SMALLEST)]


def accuracies(ranks: pd.DataFrame) -> pd.DataFrame:
    """Return accuracy over training by number of components, with that of the whole model beside it."""
    table = trained(ranks)
    whole = table[(table["components"] == "dropped") & (table["k"] == 0)]
    model = whole.groupby(["arm", "column"])["accuracy"].mean().rename("whole")
    return table[table["k"] > 0].join(model, on=["arm", "column"]).assign(least=0.0, most=1.0)


def _spectra_caption(values: pd.DataFrame) -> str:
    return (
        "Does [CLS] lose rank during training? Singular values over the largest, a line per layer. A steeper line: "
        f"fewer directions carry the variance. Values below {SMALLEST:g} are left out."
        + why_hatched(values, "Layers without a line")
    )


SPECTRA = Curves(
    points=singular,
    x="component",
    y="value",
    series="layer",
    rows="moment",
    columns="arm",
    labels=("Component", "value / largest"),
    scales=("log", "log"),
)
SINGULAR_VALUES = View(name="singular_values", needs=("singular_values",), form=SPECTRA, caption=_spectra_caption)
RANKS = View(
    name="ranks",
    needs=("ranks",),
    form=Curves(
        points=accuracies,
        x="column",
        y="accuracy",
        series="k",
        rows="components",
        columns="arm",
        labels=("Update", "accuracy"),
        names=COMPONENTS,
        beside={"whole": "whole model"},
    ),
    caption="How many principal components of [CLS] does the decision need? Score of the head on [CLS] rebuilt from k "
    "components, over training; dashed: from all components. " + EVERY,
)


PARTS = {"word": "Word embedding", "position": "Position embedding", "fused": "Fused", "normed": "Normalised"}
BINS = 24
"""Number of groups of neighbouring frequencies on a line: single frequencies are mostly noise."""
ROWS = {"flatness": "Spectral flatness", "dead": "Share of near-dead frequencies"}
THEORY = {"flatness": (0.561, 0.315), "dead": (0.010, 0.045)}
"""Expected values for independent normal entries (flatness e^−γ) and for the circular convolution of two such vectors
(flatness e^−2γ)."""
PLACES = {
    "centre": "the token itself, same hidden index",
    "hidden": "the token itself, other hidden indices",
    "tokens": "neighbouring tokens",
}
SOURCES = {"word": "Word", "token_type": "Token type", "position": "Position"}
GRADED = {
    "word": "Word table",
    "position": "Position table",
    "token_type": "Token-type table",
    "norm": "LayerNorm",
    "fusion": "Fusion",
}


def spectra(spectrum: pd.DataFrame) -> pd.DataFrame:
    """Return flatness and near-dead frequencies over training, each with its control and its values in theory."""
    table = trained(spectrum)
    parts = [
        table.assign(
            **dict(zip(("normal", "convolved"), THEORY[name], strict=True)),
            quantity=label,
            value=table[name],
            permuted=table[f"{name}_permuted"],
        )
        for name, label in ROWS.items()
    ]
    return pd.concat(parts, ignore_index=True).assign(least=0.0, most=1.0)


def energy(kernel: pd.DataFrame) -> pd.DataFrame:
    """Return the share of a kernel's energy in each place of its entries, over training."""
    keys = ["arm", "seed", "source", "column"]
    long = trained(kernel)[[*keys, *PLACES]].melt(keys, var_name="place")
    return long.assign(least=0.0, most=1.0)


def response(kernel_response: pd.DataFrame) -> pd.DataFrame:
    """Return a row per kernel and pair of frequencies, in cycles per token and per hidden index."""
    found = []
    for place, rows in kernel_response.groupby(["arm", "moment", "source"], sort=False)["magnitudes"]:
        matrix = np.stack(list(rows)).astype(float)
        tokens, hidden = (np.fft.fftshift(np.fft.fftfreq(size)) for size in matrix.shape)
        up, across = np.meshgrid(tokens, hidden, indexing="ij")
        cells = {"hidden": across.ravel(), "tokens": up.ravel(), "magnitude": matrix.ravel()}
        found.append(pd.DataFrame(cells).assign(kernel="{}, {}: {}".format(*place)))
    return pd.concat(found, ignore_index=True)


def binned(magnitudes: pd.DataFrame) -> pd.DataFrame:
    """Return magnitudes of groups of neighbouring frequencies, at the first and the chosen snapshot."""
    table = at_ends(magnitudes).sort_values("end", kind="stable")  # chosen first: its line is solid
    group = np.ceil(table["frequency"] / max(1.0, table["frequency"].max() / BINS))
    table = table.assign(frequency=table.groupby(group)["frequency"].transform("mean"))
    keys = ["arm", "seed", "part", "moment", "frequency"]
    return table.groupby(keys, sort=False)["magnitude"].mean().reset_index()


def gradient_noise(gradients: pd.DataFrame) -> pd.DataFrame:
    """Return the mean over seeds of the logarithm of the noise ratio, ± 1 sd; only values above 0 have a logarithm."""
    table = trained(gradients)
    logs = table.assign(log=np.log10(table["noise"].where(table["noise"] > 0)))
    groups = logs.groupby(["arm", "part", "column"], sort=False)["log"]
    found = groups.agg(log="mean", sd="std", seeds="count").reset_index()
    found = found[found["log"].notna() | ~found.duplicated("arm")]  # of every arm a row, so that it keeps its colour
    sd = found["sd"].fillna(0.0)  # a single seed has no sd, so no band
    return found.assign(noise=10 ** found["log"], low=10 ** (found["log"] - sd), high=10 ** (found["log"] + sd))


def _flatness(spectrum: pd.DataFrame) -> Iterator[Untested]:
    """Yield the flatness of fused vectors at the chosen epoch, beside the control; a checkpoint has no chosen epoch."""
    if "checkpoint" in spectrum:
        return
    fused = spectrum[spectrum["part"] == "fused"]
    if fused.empty:
        return
    own, (normal, convolved) = at_chosen(prepared(fused)), THEORY["flatness"]
    beside = {"normal entries": normal, "convolution of normal entries": convolved}
    controls = by_arm(own, "flatness_permuted")
    what = "Spectral flatness of fused vectors"
    yield Untested.of_seeds(what, own, "flatness", beside=beside, control="hidden axes permuted", controls=controls)


def _measured(gradients: pd.DataFrame) -> Table:
    """Return no rows if no gradient has a positive noise ratio: there is no curve to draw."""
    return (gradients if gradients["noise"].gt(0).any() else gradients[:0],)


SPECTRUM = View(
    name="spectrum",
    needs=("spectrum",),
    form=Curves(
        points=spectra,
        x="column",
        y="value",
        rows="quantity",
        columns="part",
        labels=("Update", ""),
        names=PARTS,
        beside={
            "permuted": "hidden axes permuted",
            "normal": "theory: normal entries",
            "convolved": "theory: their convolution",
        },
    ),
    caption="Is the spectrum along the hidden index flat? Word, position and fused vectors over training. Compare the "
    "solid lines with the control (dashed: hidden axes permuted) and with theory (black). " + EVERY,
    findings=_flatness,
)
RESPONSE = View(
    name="kernel-response",
    needs=("kernel_response",),
    form=Matrix(
        points=response,
        x="hidden",
        y="tokens",
        columns="kernel",
        value="magnitude",
        labels=("Cycles per hidden index", "Cycles per token"),
        limits=(0.0, None),
        bar="Magnitude",
    ),
    caption="Frequency response of the fusion's kernel, first seed of each arm. Brighter: the kernel passes this "
    "frequency more strongly; the middle is frequency 0.",
)
KERNEL = View(
    name="kernel",
    needs=("kernel",),
    form=Curves(
        points=energy,
        x="column",
        y="value",
        series="place",
        rows="source",
        columns="arm",
        labels=("Update", "Share of energy"),
        names=SOURCES | PLACES,
    ),
    caption="Where is the energy of the fusion's kernel, over training? A line per place of its entries; lines of an "
    "arm sum to 1. " + EVERY,
)
MAGNITUDES = View(
    name="magnitudes",
    needs=("magnitudes",),
    form=Curves(
        points=binned,
        x="frequency",
        y="magnitude",
        columns="part",
        dash="moment",
        labels=("Frequency", "Magnitude (mean 1)"),
        scales=("linear", "linear"),
        names=PARTS,
    ),
    caption="Which frequencies along the hidden index does fusion amplify? Magnitude of word, position and fused "
    "vectors, scaled to a mean of 1; dotted: first snapshot, solid: chosen epoch.",
)
GRADIENTS = View(
    name="gradients",
    needs=("gradients",),
    rows=_measured,
    form=Curves(
        points=gradient_noise,
        x="column",
        y="noise",
        columns="part",
        labels=("Update", "Variance over batches\n/ squared norm of the mean"),
        scales=("steps", "log"),
        names=GRADED,
    ),
    caption="How noisy is the gradient of each part of the embedding block? Variance over batches / squared norm of "
    "the mean, over training. Higher: noisier. Line: mean of the logarithm over the seeds whose estimate is above 0. "
    + EVERY,
)
