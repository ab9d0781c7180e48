"""Train a byte-pair encoding (Sennrich, Haddow & Birch 2016; arXiv:1508.07909) with SentencePiece's word marks.

Text is normalised by NFKC, runs of white space become one space, and each word starts with `▁`
(Kudo & Richardson 2018; arXiv:1808.06226). So the decoder restores normalised text, spaces included.
"""

from collections.abc import Iterable
from pathlib import Path

from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as Backend

from isoscope.data.bert_vocabulary import SPECIAL, with_frame
from isoscope.data.scripts import glued
from isoscope.data.tokens import ANY_CLASS, SEEN_TWICE, Tokenizer, frequent_characters, load, save

MARK = "▁"


def train_bpe(sentences: Iterable[str], folder: Path, *, vocab_size: int, lowercase: bool) -> Tokenizer:
    """Train a byte-pair encoding on `sentences`, of both languages of a pair together, and save it in `folder`.

    `vocab_size` bounds the vocabulary, special tokens included. Its alphabet is the `frequent_characters`, at most half
    of the vocabulary; others are [UNK]. `lowercase` converts text to lower
    case and keeps accents. In texts without spaces between words, a token occurs twice or more: one of a whole sentence
    says nothing of another. The same sentences give the same bytes. Raises `InputError` if there is no text.
    """
    sentences = list(sentences)
    tokenizer = Backend(models.BPE(unk_token=SPECIAL["unk_token"], fuse_unk=True))
    # A literal mark in the text would decode as a space, so it is a space from the start.
    steps = [normalizers.NFKC(), normalizers.Replace(Regex(rf"[\s{MARK}]+"), " "), normalizers.Strip()]
    tokenizer.normalizer = normalizers.Sequence([*steps, *([normalizers.Lowercase()] if lowercase else [])])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement=MARK, prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(replacement=MARK, prepend_scheme="always")
    normal = (tokenizer.normalizer.normalize_str(text) for text in sentences)
    words = [word for text in normal for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(text) if word != MARK]
    whole = glued(sentences)
    alphabet = sorted(frequent_characters(words, every=whole)[: vocab_size // 2])
    # With the whole alphabet given, the trainer's choice does not depend on its randomly seeded hash maps: it numbers
    # the characters by code point, and breaks ties between pairs by these numbers.
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(SPECIAL.values()),
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        min_frequency=SEEN_TWICE * whole,
        show_progress=False,
    )
    tokenizer.train_from_iterator(sentences, trainer)
    options: dict[str, object] = {
        **ANY_CLASS,
        "clean_up_tokenization_spaces": False,  # decoded text is exact
    }
    save(with_frame(tokenizer), folder, options)
    return load(folder)
