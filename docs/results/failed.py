"""What a results page says beside a verdict if one seed lies apart from the others."""

from collections.abc import Sequence

from isoscope.platform.statistics.failed_seed import robust

CONFIDENCE = 0.95


def beside(differences: Sequence[float]) -> str:
    """Return the median and its interval (or range), if a seed lies apart; else nothing."""
    found = robust(differences, confidence=CONFIDENCE)
    if found is None or found.apart is None:
        return ""
    low, high = found.interval or found.range
    kind = "interval" if found.interval else "range"
    said = f"; one seed apart ({found.farthest:+.3f}): median {found.median:+.3f}, {kind} [{low:+.3f}, {high:+.3f}]"
    return said.replace("-", "−")
