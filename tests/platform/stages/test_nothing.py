"""A study without seeds: every output that DVC expects, at once and without a heavy library."""

import shutil
import subprocess
import sys
from pathlib import Path

from isoscope.platform.config.tree import read_yaml

ROOT = Path(__file__).parents[3]
HEAVY = ("torch", "transformers", "mlflow", "dvc", "pandas", "pyarrow", "matplotlib", "scipy", "sklearn")


def test_every_output_is_there_and_nothing_heavy_was_loaded(tmp_path: Path) -> None:
    for name in ("params.yaml", "dvc.yaml"):
        shutil.copyfile(ROOT / name, tmp_path / name)
    shutil.copytree(ROOT / "variants", tmp_path / "variants")
    code = f"""
import sys
from isoscope.platform.cli import app
app(["analyse", "fusion", "-S", "studies.fusion.seeds=[]"], standalone_mode=False)
print([name for name in {HEAVY} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    stage = read_yaml(ROOT, Path("dvc.yaml"))["stages"]["analyse"]["do"]
    declared = [
        next(iter(out)) if isinstance(out, dict) else out
        for part in ("outs", "metrics", "plots")
        for out in stage[part]
    ]
    for out in declared:
        place = tmp_path / out.replace("${key}", "fusion")
        assert place.is_file() or any(place.iterdir()), out
