"""What pyproject.toml cannot say: the files of isoscope's own project, and its docs, are data of the package."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
# Files and folders, to which the pages and examples of docs/ are added; MANIFEST.in repeats them for a source archive.
PROJECT = (
    *("params.yaml", "dvc.yaml", "CITATION.cff", "variants", "plugins/README.md", "texts/README.md"),
    *(".dvc/.gitignore", ".dvc/config", ".dvc/plots", ".dvcignore", ".gitattributes", ".gitignore"),
)


class BuildWithProject(build_py):
    """Copy the files next to the package's modules; an editable install reads them in the checkout."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        target = Path(self.build_lib, "isoscope", "_project")
        files = (*ROOT.glob("docs/**/*.md"), *ROOT.glob("docs/examples/*.py"))
        pages = [file.relative_to(ROOT).as_posix() for file in files]
        for name in (*PROJECT, *pages):
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copyfile
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(target / name, ignore_errors=True)
            copy(ROOT / name, target / name)


setup(cmdclass={"build_py": BuildWithProject})
