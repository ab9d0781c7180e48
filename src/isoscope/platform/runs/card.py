"""Model cards: the README.md of a checkpoint says what the model is, what it was trained on, and how to load it."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

CARD = "README.md"
TRAINING = "## Training\n"
"""Heading of the part of a card that an exported model takes over."""
_PIPELINES = {
    "AutoModelForSequenceClassification": "text-classification",
    "AutoModelForTokenClassification": "token-classification",
    "AutoModelForMaskedLM": "fill-mask",
    "AutoModelForCausalLM": "text-generation",
    "AutoModel": "feature-extraction",
}
_READS_AND_WRITES = {
    "FusionBertForTranslation": "isoscope.models.translation",
    "FusionBertHybrid": "isoscope.models.hybrid",
}
_LIBRARY = """## Load

```python
from transformers import {auto}, AutoTokenizer

model = {auto}.from_pretrained("FOLDER")
tokenizer = AutoTokenizer.from_pretrained("FOLDER")
```
"""
_LOAD = """## Load

```python
import {module}  # registers the architecture
from transformers import {auto}, AutoTokenizer

model = {auto}.from_pretrained("FOLDER")
tokenizer = AutoTokenizer.from_pretrained("FOLDER")
```

- Without `import {module}`, transformers "does not recognize this architecture".
- A class of transformers, such as `BertForSequenceClassification`, loads the folder without the fusion. It only warns
  of an unexpected model type. Its results are not those of this model, unless the fusion is additive.
- `isoscope export FOLDER OUT` writes a folder that loads without isoscope.
"""


def auto_class(architecture: str) -> str:
    """Return the Auto class of transformers that loads one of our architectures, or of its own."""
    if architecture in _READS_AND_WRITES:
        return "AutoModelForSeq2SeqLM"
    _, found, head = architecture.replace("LMHeadModel", "ForCausalLM").partition("For")
    return f"AutoModel{found}{head}"


def front_matter(auto: str) -> str:
    """Return the metadata of a card in YAML, with its closing line."""
    task = [f"pipeline_tag: {_PIPELINES[auto]}"] if auto in _PIPELINES else []
    return "\n".join(["---", "library_name: transformers", *task, "tags:", "- isoscope", "---", "", ""])


def cards(output: Path, run: Mapping[str, Any], points: Iterable[Mapping[str, Any]], data: Path) -> dict[str, str]:
    """Return the card of each checkpoint in a run's output, by its path in the output.

    - `run`: the entries of the output's config.yaml.
    - `points`: the run's metric points; a card has those of its epoch on the validation and test splits.
    - `data`: folder of the prepared task, whose manifest names source and licence.

    A function of its arguments and files: no times, no paths of this machine.
    """
    points, found = list(points), {}
    for folder in sorted((output / "checkpoints").glob("epoch-*")):
        architecture = json.loads((folder / "config.json").read_text("utf-8"))["architectures"][0]
        epoch, auto = int(folder.name.removeprefix("epoch-")), auto_class(architecture)
        module = _READS_AND_WRITES.get(architecture, "isoscope.models")
        text = front_matter(auto) + f"# {run['arm']}, seed {run['seed']}: epoch {epoch}\n\n"
        text += f"A `{architecture}`, trained by isoscope in the study `{run['study']}` on the task `{run['task']}`.\n"
        load = _LOAD if architecture.startswith("Fusion") else _LIBRARY
        text += "\n" + load.format(module=module, auto=auto) + "\n" + _training(run, epoch, points, data)
        found[f"checkpoints/{folder.name}/{CARD}"] = text
    return found


def _training(run: Mapping[str, Any], epoch: int, points: Iterable[Mapping[str, Any]], data: Path) -> str:
    """Return the part of a card on the training: a table of the run and its data, and a table of metrics."""
    file = data / "manifest.json"
    of_data = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    params = run["params"]
    start = params["model"]["encoder"]
    kinds = {name: params[name]["kind"] for name in ("objective", "penalty") if name in params}
    revision = f", revision {of_data['revision']}" if of_data.get("revision") else ""
    rows = {
        "data": f"{of_data.get('source', 'unknown')}{revision}",
        "licence of the data": of_data.get("licence", "unknown"),
        **kinds,
        "fusion": params["model"]["fusion"]["kind"],
        "start": ", ".join(str(start[name]) for name in ("kind", "checkpoint", "revision") if name in start),
        **{name: run[name] for name in ("study", "arm", "seed", "digest", "code")},
    }
    scores = {
        point["name"]: point["value"]
        for point in points
        if point.get("epoch") == epoch and point["name"].startswith(("validation/", "test/"))
    }
    facts = "".join(f"| {name} | {_cell(value)} |\n" for name, value in rows.items())
    metrics = "".join(f"| {name} | {value:.6g} |\n" for name, value in scores.items())
    return f"{TRAINING}\n| | |\n|---|---|\n{facts}\n| metric | epoch {epoch} |\n|---|---|\n{metrics}"


def _cell(value: Any) -> str:
    return " ".join(str(value).split()).replace("|", "\\|")
