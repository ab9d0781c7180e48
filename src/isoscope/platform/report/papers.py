"""The papers that figures follow, by the names in `View.remakes`."""

from collections.abc import Iterable

PAPERS = {
    "Li 2025 (fusion)": (
        "a research project on fusions of BERT's embeddings (addition, Conv2D, circular convolution by FFT), without a "
        "known address.",
        "",
    ),
    "Vázquez et al. 2021": (
        "On the differences between BERT and MT encoder spaces and how to address them in translation tasks. ACL 2021, "
        "student research workshop.",
        "https://aclanthology.org/2021.acl-srw.35",
    ),
    "Vázquez et al. 2022": (
        "A Closer Look at Parameter Contributions When Training Neural Language and Translation Models. COLING 2022.",
        "https://aclanthology.org/2022.coling-1.424",
    ),
    "Lan et al. 2019": (
        "LCA: Loss Change Allocation for Neural Network Training. NeurIPS 2019.",
        "https://arxiv.org/abs/1909.01440",
    ),
}
"""Name → title and venue, and address."""


def followed(remakes: Iterable[str | None]) -> dict[str, tuple[str, str]]:
    """Return the papers of figures, in the order of `PAPERS`."""
    texts = [text for text in remakes if text]
    return {name: paper for name, paper in PAPERS.items() if any(text.startswith(name) for text in texts)}
