"""`isoscope spaces`: checkpoints of different width, depth and tokenizer on the same words, Marian's among them."""

import json
import warnings
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from transformers import AutoModel, BertConfig, BertModel, MarianConfig, MarianModel, MarianTokenizer

from browser import opened
from isoscope.base.errors import InputError
from isoscope.data import tokens
from isoscope.data.word_table import word_table
from isoscope.data.words import words
from isoscope.models.encoder import load_encoder
from isoscope.platform.cli import app
from isoscope.states.choices import SPACES
from isoscope.states.word_space import Space, write_space
from isoscope.studies.geometry.views import TITLES
from marian_material import write_pieces
from probe_material import bert, gpt2, save, sentences

FEW = ("--occurrences", "600", "--items", "60", "--draws", "20", "--permutations", "3", "--histogram", "1000")
SAMPLE: dict[str, Any] = {"occurrences": 600, "per_sentence": 25, "seed": 0}
MEASURES = {
    "cka",
    "procrustes",
    "cca",
    "svcca",
    "pwcca_one",
    "pwcca_other",
    "cca_held_out",
    "rsa",
    "neighbours",
    "rsa_partial",
}
TEXTS = [*dict.fromkeys(sentences()["sentence"].to_pylist())]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = save(tmp_path_factory.mktemp("anywhere"), encoder=bert(), decoder=gpt2())
    torch.manual_seed(5)
    deep = BertModel(
        BertConfig(vocab_size=900, hidden_size=12, num_hidden_layers=3, num_attention_heads=2, intermediate_size=24)
    )
    deep.save_pretrained(folder / "deep")
    tokens.train_wordpiece(TEXTS, folder / "deep", vocab_size=90, lowercase=True)
    (folder / "reviews.txt").write_text("\n".join(TEXTS), "utf-8")
    return folder


def isoscope(place: Path, *words: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        app([*words], standalone_mode=False)


def spaces(place: Path, *words: str) -> None:
    isoscope(place, "spaces", *words)


def test_a_page_of_two_models_of_other_width_depth_and_tokenizer(place: Path) -> None:
    spaces(place, "encoder", "deep", "--text", "reviews.txt", "--out", "page", *FEW)
    layers = pd.read_parquet(place / "page/contextuality.parquet").groupby(["model", "twin"])["layer"].nunique()
    assert layers.to_dict() == {("encoder", False): 4, ("encoder", True): 4, ("deep", False): 5, ("deep", True): 5}
    table = pd.read_parquet(place / "page/similarity.parquet")
    assert set(table["measure"]) == MEASURES
    assert len(table) == 2 * (4 * 5 + 3 * 4) * len(MEASURES)
    assert table.loc[table["measure"] == "cka", ["value", "low", "high", "null"]].notna().all(axis=None)
    counts = pd.read_parquet(place / "page/counts.parquet").set_index("words")["occurrences"]
    assert counts["in the table"] >= counts["in all models"] >= counts["compared: words"] > 0
    with opened(place / "page/index.html") as seen:
        assert seen.page.locator("figure svg").count() == 2 + 1 + 1 + 2 + 2
        assert {"What was found?", "How alike are two spaces?"} <= {*seen.page.locator("nav a").all_inner_texts()}
        assert "CKA" in seen.page.locator("section[aria-labelledby=findings]").inner_text()
        assert seen.requests == []
        assert seen.complaints == []


NOUNS = ["film", "plot", "scene", "story", "actor", "song", "image", "start", "tone", "pace", "joke", "role"]
VERBS = ["moved", "bored", "film", "saw", "left", "kept", "held", "told", "met", "took"]


def bank(place: Path) -> None:
    """Sixty sentences, with a column of text too. Every other sentence has "didn't", a multiword token without head."""
    rows = []
    for at, (noun, adjective) in enumerate(product(range(12), ("slow", "good", "fine", "dull", "odd"))):
        verb = VERBS[at % 10]
        words = [("the", "DET"), (adjective, "ADJ"), (NOUNS[noun], "NOUN")]
        words += [("did", "AUX"), ("n't", "PART")] * (at % 2) + [(verb, "VERB"), ("me", "PRON"), (".", "PUNCT")]
        heads: list[int | None] = [0] * len(words)
        if at % 2:
            words.insert(3, ("didn't", "_"))
            heads.insert(3, None)
        tokens_, tags = zip(*words, strict=True)
        rows.append({"text": " ".join(tokens_[::-1]), "tokens": tokens_, "upos": tags, "head": heads})
    pq.write_table(pa.Table.from_pylist(rows), place / "bank.parquet")


def test_a_treebank_gives_self_sim_by_part_of_speech(place: Path) -> None:
    bank(place)
    spaces(place, "encoder", "deep", "--text", "bank.parquet", "--out", "tagged", *FEW)
    found = pd.read_parquet(place / "tagged/tagged_words.parquet")
    own = found[(found["space"] == "deep") & (found["layer"] == 3)]
    assert set(own.loc[own["form"] == "film", "tag"]) == {"NOUN", "VERB"}
    expected = {"NOUN": 12, "VERB": 10, "ADJ": 5, "AUX": 1, "PART": 1, "DET": 1, "PRON": 1}
    assert own["tag"].value_counts().to_dict() == expected
    figure = (place / "tagged/figures/self_sim_by_part_of_speech.svg").read_text("utf-8")
    for name in ("NOUN (n = 12)", "VERB (n = 10)", "other tags (n = 9)"):
        assert name in figure
    spaces(place, "encoder", "deep", "--text", "bank.parquet", "--column", "text", "--out", "tagged", *FEW)
    assert not (place / "tagged/figures/self_sim_by_part_of_speech.svg").exists()


def test_a_translation_that_is_the_text_itself_changes_nothing(place: Path) -> None:
    """With each word linked to itself, the second model's states are those that it has of the text."""
    frame = pd.DataFrame({"src": TEXTS, "tgt": TEXTS})
    frame.to_csv(place / "pairs.csv", index=False)
    links = "\n".join(" ".join(f"{one}-{one}" for one in range(len(words(text)))) for text in TEXTS)
    (place / "links.txt").write_text(links, "utf-8")
    own = ("encoder", "deep", "--text", "pairs.csv", "--column", "src")
    spaces(place, *own, "--out", "plain", *FEW)
    spaces(place, *own, "--other-column", "tgt", "--links", "links.txt", "--out", "linked", *FEW)
    for name in ("similarity", "maps", "contextuality"):
        plain, linked = (pd.read_parquet(place / folder / f"{name}.parquet") for folder in ("plain", "linked"))
        if name == "contextuality":  # the second model's words are not the text's
            assert set(linked["model"]) == {"encoder"}
            plain = plain[plain["model"] == "encoder"].reset_index(drop=True)
        pd.testing.assert_frame_equal(plain, linked)
    manifest = json.loads((place / "linked/manifest.json").read_text("utf-8"))
    assert manifest["origin"] == "pairs.csv, column 'src'; deep reads pairs.csv, column 'tgt'"
    for options, message in (
        (("--other-column", "tgt", "--links", "none.txt"), "--links none.txt: no such file"),
        (("--links", "links.txt"), "without --other-column"),
        (("--other-column", "target"), r"no column 'target' \(of the translations\); there are: src, tgt"),
    ):
        with pytest.raises(InputError, match=message):
            spaces(place, *own, *options, "--out", "refused", *FEW)


def states_of(place: Path, name: str) -> Space:
    """The states of the words that the command samples with the options `FEW`."""
    model, table = AutoModel.from_pretrained(place / name).eval(), word_table(TEXTS, **SAMPLE)
    return write_space(place / "states" / name, model, place / name, table, SPACES)


def test_sentences_are_the_means_of_their_words(place: Path) -> None:
    """AvgSim over the sentences' means, from states of the same words; no figure of words."""
    spaces(place, "encoder", "deep", "--text", "reviews.txt", "--out", "page", *FEW)
    spaces(place, "encoder", "deep", "--text", "reviews.txt", "--out", "page", *FEW, "--probe", "sentences")
    found = pd.read_parquet(place / "page/contextuality.parquet").set_index(["space", "layer", "measure"])["value"]
    assert set(found.index.get_level_values("measure")) == {"avg_sim", "avg_sim_centred"}
    space = states_of(place, "deep")
    points = space.layer(2, space.keys["found"].to_numpy(bool))
    means = pd.DataFrame(points).groupby(space.keys["sentence"][space.keys["found"]].to_numpy()).mean().to_numpy()
    unit = means / np.linalg.norm(means, axis=1, keepdims=True)
    expected = (np.sum(unit.sum(0) ** 2) - len(unit)) / (len(unit) * (len(unit) - 1))
    assert found["deep", 2, "avg_sim"] == pytest.approx(expected)
    table = pd.read_parquet(place / "page/similarity.parquet")
    assert set(table["of"]) == {"sentences"}
    assert set(table["measure"]) == MEASURES
    assert not (place / "page/figures/contextuality.svg").exists()


def test_a_model_is_like_itself_and_other_measures_see_another(place: Path) -> None:
    """The same weights in two folders: 1 on the diagonal for all; a decoder of other weights is less alike."""
    model = AutoModel.from_pretrained(place / "encoder")
    with torch.no_grad():
        model.pooler.dense.weight.add_(1.0)  # another digest, the same hidden states
    save(place, copy=model)
    spaces(place, "encoder", "copy", "decoder", "--text", "reviews.txt", "--out", "three", *FEW, "--components", "4")
    table = pd.read_parquet(place / "three/similarity.parquet")
    table = table[(table["of"] == "words") & (table["layer"] == table["other_layer"])].set_index(["one", "other"])
    own, other = table.loc[("encoder", "copy")], table.loc[("encoder", "decoder")]
    assert own["value"].count() >= 21, "SVCCA refuses so few words"
    # Below layer 1 the same word (and position) has the same vector, and of equal vectors chance decides.
    tied = (own["measure"] == "neighbours") & (own["layer"] < 1)
    assert own["value"][~tied].dropna().to_numpy() == pytest.approx(1.0, abs=1e-6)
    assert own["value"][tied].between(0.8, 1.0).all()
    assert (other["value"].dropna() < 0.95).all()


def test_states_are_those_of_transformers(place: Path, tmp_path: Path) -> None:
    """The mean, the first and the last of a word's tokens, by the model's own forward pass."""
    tokenizer = tokens.load(place / "deep")
    table = word_table(TEXTS[:30], occurrences=200, per_sentence=9, seed=0)
    model = AutoModel.from_pretrained(place / "deep").eval()
    found = {}
    for pooling in ("mean", "first", "last"):
        settings = SPACES._replace(pooling=pooling, max_length=64, batch_size=7)
        found[pooling] = write_space(tmp_path / pooling, model, place / "deep", table, settings)
    several = 0
    for row, (sentence, begin, end) in enumerate(
        zip(table.rows["sentence"], table.rows["begin"], table.rows["end"], strict=True)
    ):
        encoding = tokenizer.backend.encode(table.texts[sentence])
        own = [
            place
            for place, (first, last) in enumerate(encoding.offsets)
            if last > first and first < end and last > begin and not encoding.special_tokens_mask[place]
        ]
        several += len(own) > 1
        with torch.no_grad():
            states = model(torch.tensor([encoding.ids]), output_hidden_states=True).hidden_states
        kept = np.arange(len(table.rows)) == row
        for layer in (0, 3):
            tokens_ = states[layer][0, own].numpy()
            for pooling, expected in (("mean", tokens_.mean(0)), ("first", tokens_[0]), ("last", tokens_[-1])):
                np.testing.assert_allclose(found[pooling].layer(layer, kept)[0], expected, atol=1e-5)
    assert several > 20


def test_the_page_of_geometry_shows_the_same_grids_on_request(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Width 16 and 12; the tables of `isoscope spaces` with its default sample. A second call reads them."""
    given = ("encoder", "deep", "--text", "reviews.txt", "--out")
    few = ("--sentences", "12", "--words", "12")
    spaces(place, *given, str(tmp_path / "spaces"), "--draws", "20", "--histogram", "1000")
    for analyses in (("planes", "spaces"), ("spaces",), ("planes",)):
        asked = [word for name in analyses for word in ("--analysis", name)]
        capsys.readouterr()
        isoscope(place, "geometry", *given, str(tmp_path / "geometry"), *few, *asked)
        page = (tmp_path / "geometry/index.html").read_text("utf-8")
        shown = "spaces" in analyses
        assert ("encoder: states" in capsys.readouterr().err) == (analyses == ("planes", "spaces"))
        assert (TITLES["spaces"] in page) == (tmp_path / "geometry/figures/spaces-1.svg").exists() == shown
        assert ("<code>--analysis spaces</code>" in page) != shown, "the page says how to ask for them"
        assert (tmp_path / "geometry/similarity.parquet").exists() == shown
        if shown:
            for name in ("similarity", "counts"):
                own, theirs = (pd.read_parquet(tmp_path / one / f"{name}.parquet") for one in ("geometry", "spaces"))
                pd.testing.assert_frame_equal(own, theirs)
    with pytest.raises(InputError, match="one checkpoint; give two or more"):
        isoscope(place, "geometry", *given[:1], *given[2:], str(tmp_path / "single"), *few, "--analysis", "spaces")


@pytest.mark.parametrize(
    "words, line",
    [
        (("encoder", "--text", "reviews.txt", "--out", "new"), "one checkpoint; give two or more"),
        (("encoder", "deep", "--text", "no.txt", "--out", "new"), "no.txt: no such file"),
        (("encoder", "deep", "--text", "reviews.txt", "--out", "new", "--pooling", "sum"), "--pooling sum: expected"),
        (
            ("encoder", "deep", "--text", "reviews.txt", "--out", "new", "--neighbours", "30"),
            "--neighbours 30: must be less than half of --items 60",
        ),
        (("encoder", "deep", "--text", "reviews.txt", "--out", "encoder"), "--out encoder: contains other files"),
    ],
)
def test_what_cannot_be_compared_is_refused(place: Path, words: tuple[str, ...], line: str) -> None:
    with pytest.raises(InputError, match=line):
        spaces(place, *words, *FEW)


OPUS: dict[str, Any] = {
    "activation_function": "swish",
    "add_final_layer_norm": False,
    "normalize_before": False,
    "scale_embedding": True,
    "static_position_embeddings": True,
}
"""The options of opus-mt-en-de's config.json that shape the encoder."""


@pytest.fixture(scope="module")
def marian(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("marian")
    (folder / "opus").mkdir()
    write_pieces(folder / "opus", TEXTS, size=60)
    size = tokens.load(folder / "opus").vocab_size
    ids = {"pad_token_id": size - 1, "decoder_start_token_id": size - 1, "eos_token_id": 0, "forced_eos_token_id": 0}
    shape = {f"{side}_{what}": 2 for side in ("encoder", "decoder") for what in ("layers", "attention_heads")}
    torch.manual_seed(3)
    config = MarianConfig(vocab_size=size, d_model=16, max_position_embeddings=64, **shape, **ids, **OPUS)
    MarianModel(config).save_pretrained(folder / "opus")
    return folder / "opus"


def test_words_are_the_means_of_the_pieces_that_the_slow_tokenizer_gives(marian: Path, tmp_path: Path) -> None:
    table = word_table(TEXTS, **SAMPLE)
    space = write_space(tmp_path, load_encoder(marian), marian, table, SPACES._replace(max_length=64, batch_size=7))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # it recommends sacremoses
        slow = MarianTokenizer.from_pretrained(marian)
    whole = MarianModel.from_pretrained(marian).eval()
    every = np.ones(len(table.rows), bool)
    seen = 0
    for number, text in enumerate(table.texts):
        encoding = slow(text, return_tensors="pt")
        names = slow.convert_ids_to_tokens(encoding["input_ids"][0])
        word_of = np.cumsum([name.startswith("▁") for name in names]) - 1
        with torch.no_grad():
            states = whole.encoder(**encoding, output_hidden_states=True).hidden_states
        own = np.flatnonzero((table.rows["sentence"] == number).to_numpy())
        for row in own:
            word = text[: table.rows["begin"][row]].count(" ")
            rows = [place for place, of in enumerate(word_of[:-1]) if of == word]  # </s> is last
            for layer, found in enumerate(states):
                expected = found[0, rows].mean(0).numpy()
                np.testing.assert_allclose(space.layer(layer, every)[row], expected, atol=1e-5)
            seen += len(rows) > 1
    assert seen > 20
    weights = whole.encoder.embed_tokens.weight.detach().numpy()
    assert 0 < np.abs(space.layer(-1, every)).max() <= np.abs(weights).max() * 4, "the word table is scaled or not"
