"""The empty outputs of a study without seeds, and of no search, written in milliseconds: DVC expects every output."""

from isoscope.base import paths
from isoscope.base.atomic_files import replacing, write_text

NOTHING = {
    f"{paths.TABLES}/nothing.txt": "No runs to show\n",  # DVC warns of a folder without files
    f"{paths.FIGURES}/nothing.svg": (
        '<svg xmlns="http://www.w3.org/2000/svg" width="420" height="60">'
        '<text x="12" y="35" font-family="sans-serif" font-size="14">No runs to show</text></svg>\n'
    ),
    "comparison.json": "{}\n",
    "config.yaml": "{}\n",
    "metrics.json": "{}\n",
    "curves.csv": "study,arm,metric,epoch,mean,sd,n\n",
    "confusion.csv": "study,arm,seed,actual,predicted,count\n",
    "layers.csv": "figure,arm,layer,step,mean,sd,n\n",
}


def write_nothing(name: str, project: paths.Project) -> None:
    """Write the empty outputs of a study without seeds."""
    target = project.folder / paths.analysed(name)
    for folder in (paths.TABLES, paths.FIGURES):
        with replacing(target / folder, "table"):
            pass
    for file, text in NOTHING.items():
        write_text(target / file, text, "table")


def write_no_search(project: paths.Project) -> None:
    """Write the output of `search: null`; drop the results of an earlier search."""
    target = project.folder / paths.SEARCH
    target.parent.mkdir(exist_ok=True)
    with replacing(target, "table") as fresh:
        write_text(fresh / "study.json", '{"counts": {}}\n', "table")
