"""What a page of compared spaces says beside its figures: which words are compared."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from isoscope.base.view import Tables
from isoscope.platform.results.checkpoint_text import CheckpointText, Numbers
from isoscope.studies.spaces.views import CONTEXTUAL

COUNTS = Numbers(
    "counts",
    "Which words are compared?",
    {"words": "Words", "occurrences": "Occurrences", "sentences": "Sentences"},
    lambda table: table.astype({"occurrences": "Int64"}).astype({"occurrences": object}).replace({pd.NA: None}),
)


def text(tables: Tables, facts: Mapping[str, Any]) -> CheckpointText:
    """Return what the page says beside its figures."""
    return CheckpointText(numbers={CONTEXTUAL: (COUNTS,)})
