"""Fuse word, position and token-type embeddings: a file per kind of `model.fusion`, with its options and its module.

Each factory returns a module `forward(word, position, token_type, mask) -> [B, L, D]`. The three tables' rows are `[B,
L, D]`, or `[1, L, D]` if every sentence has the same rows. `mask` is `[B, L, 1]`, 1 at tokens and 0 at padding (None:
no padding). `uses_token_type` says whether the fusion reads the third table, `looks_around` whether it reads
neighbouring tokens, `layer_norm` (true by default) whether a LayerNorm follows. Torch is imported when a module is
made, so that options are checked without it.
"""
