"""LoRA by peft, as in docs/huggingface.md: learning, saving and merging."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from fusions import FUSIONS, batch, make
from isoscope.models import FusionBertForSequenceClassification, FusionRobertaForSequenceClassification

peft = pytest.importorskip("peft", reason="peft is not installed: make hf")
# peft 0.21 itself asks transformers 5.23 by an old name.
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")
DOCS = (Path(__file__).parents[2] / "docs/huggingface.md").read_text("utf-8")
LEARNED = ["conv2d-5x5-bias-gate", "fft-residual"]


def adapted(folder: Path) -> Any:
    (code,) = (one for one in re.findall(r"```python\n(.*?)```", DOCS, re.DOTALL) if "peft" in one)
    names: dict[str, Any] = {"folder": folder}
    exec(code, names)
    return names["model"]


@pytest.mark.parametrize("fusion", LEARNED)
@pytest.mark.parametrize("kind", [FusionBertForSequenceClassification, FusionRobertaForSequenceClassification])
def test_what_the_page_says(kind: Any, fusion: str, tmp_path: Path) -> None:
    make(kind, FUSIONS[fusion]).save_pretrained(tmp_path / "whole")
    plain = kind.from_pretrained(tmp_path / "whole").eval()
    model, inputs = adapted(tmp_path / "whole").eval(), batch()
    before = plain(**inputs).logits
    assert torch.equal(model(**inputs).logits, before)  # LoRA starts at nothing, and a wrapped fusion is the same one

    learned = {name for name, value in model.named_parameters() if value.requires_grad}
    assert all("lora_" in name or ".modules_to_save." in name for name in learned)
    parts = {name.rsplit(".", 1)[1] for name in learned if "embeddings.fusion" in name}
    assert parts == {name for name, _ in plain.base_model.embeddings.fusion.named_parameters()}
    optimizer = torch.optim.Adam([value for value in model.parameters() if value.requires_grad], lr=0.05)
    for _ in range(3):
        model(**inputs, labels=torch.tensor([0, 1, 0])).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    after = model(**inputs).logits
    assert (after - before).abs().max() > 0.1

    model.save_pretrained(tmp_path / "adapter")
    again = peft.PeftModel.from_pretrained(kind.from_pretrained(tmp_path / "whole"), tmp_path / "adapter").eval()
    assert torch.equal(again(**inputs).logits, after)
    merged = model.merge_and_unload()
    assert type(merged) is kind
    torch.testing.assert_close(merged(**inputs).logits, after, rtol=0, atol=1e-5)
    merged.save_pretrained(tmp_path / "merged")
    assert torch.equal(kind.from_pretrained(tmp_path / "merged")(**inputs).logits, merged(**inputs).logits)


@pytest.mark.parametrize("fusion", FUSIONS)
def test_a_wrapped_fusion_is_asked_what_it_reads(fusion: str) -> None:
    model, inputs = make(FusionBertForSequenceClassification, FUSIONS[fusion]), batch((6, 6))
    whole = model.bert(**inputs).last_hidden_state
    wrapped = peft.get_peft_model(model, peft.LoraConfig(target_modules="all-linear", modules_to_save=["fusion"]))
    assert torch.equal(wrapped.base_model.model.bert(**inputs).last_hidden_state, whole)
    pairs = {**inputs, "attention_mask": torch.ones(2, 1, 6, 6, dtype=torch.bool)}
    if not fusion.startswith("conv2d"):  # of one token at a time: such a mask says all it needs
        wrapped.base_model.model.bert(**pairs)
