"""Views of the scores of any study: learning curves, and confusion matrices of its arms."""

import pandas as pd

from isoscope.base.view import View, under
from isoscope.platform.config.declared import title
from isoscope.platform.figures.form import in_order
from isoscope.platform.figures.line_form import Curves
from isoscope.platform.figures.matrix_form import Matrix
from isoscope.platform.figures.snapshots import band, seeds_of, with_range
from isoscope.platform.outputs import metrics_in
from isoscope.studies import transformed
from isoscope.studies.curves import drawn

SPLITS = {"validation": "validation", "train": "train"}
PUBLISHED = {"additive", "conv2d", "fft"}
"""Fusions whose learning curves are published."""
MOST = 10
"""Of more classes, the most confused are drawn, and the rest as one; the table has them all."""
REST, OTHER = "the other {} classes", "a wrong one of the others"


def training_curves(bands: pd.DataFrame, seeds: pd.DataFrame, metrics: pd.DataFrame) -> pd.DataFrame:
    """Return the objective's two metrics (`drawn`) by epoch: mean ± 1 sd by split; validation by seed, if several.

    The note of an arm says from which epoch fewer seeds remain. `metrics`: what the objectives declare, for titles and
    ranges.
    """
    shown, own = drawn(bands["metric"]), metrics_in(metrics)
    split, quantity = (bands["metric"].str.split("/", n=1).str[part] for part in (0, -1))
    bands = bands.assign(split=split, quantity=quantity, value=bands["mean"])
    bands = with_range(bands[bands["split"].isin(SPLITS) & bands["quantity"].isin(shown)], "quantity", own)
    low, high = band(bands["mean"], bands["sd"], (bands["least"], bands["most"]))
    bands = bands.assign(low=low, high=high, seeds=bands["n"])
    several = seeds.groupby("arm")["seed"].transform("nunique") > 1
    fine = seeds.assign(split="validation")[several]
    fine = fine.assign(quantity=fine["metric"].str.removeprefix("validation/"))
    found = pd.concat([bands.assign(seed=float("nan")), fine], ignore_index=True)
    names = {one: title(one, own) for one in shown}
    return in_order(found, "quantity", shown).replace({"quantity": names})


def fewer(bands: pd.DataFrame) -> str:
    """Return from which epoch an arm has fewer seeds, for a caption; empty if no run stopped early."""
    found = []
    for arm, rows in bands.groupby("arm", sort=False):
        n = rows[rows["metric"].isin([f"{split}/{one}" for split in SPLITS for one in drawn(rows["metric"])])]
        n = n.groupby("epoch")["n"].max()
        found += [f"{arm} {n[epoch]} from epoch {int(epoch)}" for epoch in n.index[n.diff() < 0]]
    return f" Seeds left: {', '.join(found)}." if found else ""


def _curves_caption(bands: pd.DataFrame, seeds: pd.DataFrame, metrics: pd.DataFrame) -> str:
    thin = "; thin: each seed" if len(seeds) and seeds.groupby("arm")["seed"].nunique().max() > 1 else ""
    several = "mean over seeds; band: ± 1 sd" if bands["sd"].notna().any() else "the only seed"
    return f"Learning curves by epoch. Line: {several}; dotted: train; solid: validation{thin}.{fewer(bands)}"


def shares(confusion: pd.DataFrame) -> pd.DataFrame:
    """Return the share of the actual class by arm and predicted class, over all seeds; in a cell: share and count.

    Of more than `MOST` classes, the most confused (most errors as actual or predicted class) stay; the rest are one
    row and two columns: the actual class itself, or another of the rest.
    """
    classes = list(dict.fromkeys(confusion["actual"]))
    predicted = classes
    notes = {arm: seeds_of(own) for arm, own in confusion.groupby("arm", sort=False)}
    if len(classes) > MOST:
        kept = most_confused(confusion, MOST - 1)
        rest = REST.format(len(classes) - len(kept))
        classes, predicted = [*kept, rest], [*kept, rest, OTHER]
        wrong = confusion["actual"] != confusion["predicted"]
        renamed = {side: confusion[side].where(confusion[side].isin(kept), rest) for side in ("actual", "predicted")}
        another = wrong & (renamed["actual"] == rest) & (renamed["predicted"] == rest)
        confusion = confusion.assign(**renamed | {"predicted": renamed["predicted"].mask(another, OTHER)})
    counts = confusion.groupby(["arm", "actual", "predicted"], sort=False)["count"].sum().reset_index()
    whole = counts.groupby(["arm", "actual"])["count"].transform("sum")
    share = (counts["count"] / whole.where(whole > 0)).fillna(0.0)
    texts = [f"{one:.2f}\n{count}" for one, count in zip(share, counts["count"], strict=True)]
    found = counts.assign(share=share, text=texts, note=counts["arm"].map(notes))
    return in_order(in_order(found, "predicted", predicted), "actual", classes)


def most_confused(confusion: pd.DataFrame, most: int) -> list[str]:
    """Return the classes with the most errors, as actual or as predicted class, in the order of the classes."""
    wrong = confusion[confusion["actual"] != confusion["predicted"]]
    errors = wrong.groupby("actual")["count"].sum().add(wrong.groupby("predicted")["count"].sum(), fill_value=0)
    kept = set(errors.sort_values(ascending=False, kind="stable").index[:most])
    return [name for name in dict.fromkeys(confusion["actual"]) if name in kept]


def _confusion_caption(confusion: pd.DataFrame) -> str:
    count = confusion["actual"].nunique()
    few = f" Of {count} classes, the {MOST - 1} with most errors; the table has all." * (count > MOST)
    return (
        "Confusion matrices on the test split. Colour: share of the actual class, from 0 to 1. Numbers, where cells "
        f"have room: this share, and below it the count, summed over the seeds.{few}"
    )


def _remakes(bands: pd.DataFrame, seeds: pd.DataFrame, metrics: pd.DataFrame) -> str | None:
    """Return the published figure of fusions' learning curves, if several of them are compared."""
    found = PUBLISHED & {word for arm in bands["arm"] for word in str(arm).split("-")}
    return "Li 2025 (fusion), Figure 1" if len(found) > 1 else None


TRAINING = View(
    name="training",
    needs=("bands", "seeds", "metrics"),
    form=Curves(
        points=training_curves,
        x="epoch",
        y="value",
        columns="quantity",
        dash="split",
        thin="seed",
        labels=("Epoch", ""),
        scales=("linear", "linear"),
        names=SPLITS,
    ),
    caption=_curves_caption,
    remakes=_remakes,
)
CONFUSION = View(
    name="confusion",
    needs=("confusion",),
    form=Matrix(
        points=shares,
        x="predicted",
        y="actual",
        columns="arm",
        value="share",
        labels=("Predicted", "Actual"),
        bar="Share of the actual class",
        digits=2,
    ),
    caption=_confusion_caption,
)
VIEWS = (TRAINING, CONFUSION, *under("What does a transform of the vectors change?", transformed.view()))
