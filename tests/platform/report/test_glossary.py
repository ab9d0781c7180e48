"""The glossary of a page explains what the page says, and nothing else."""

from isoscope.platform.report.glossary import with_used_terms

WORDS = """<dl class="words">
<dt>a₁</dt><dd>A share.</dd>
<dt>Arch</dt><dd>A parabola of <em>probes</em>.</dd>
<dt>CKA, CCA</dt><dd>Similarities.</dd>
<dt>Probes</dt><dd>Linear classifiers, with accuracy.</dd>
<dt>Near-dead frequencies</dt><dd>Of no power.</dd>
</dl>"""


def terms(body: str) -> list[str]:
    found = with_used_terms(f"<style>probes cca</style><p>{body}</p>{WORDS}")
    return [one for one in ("<dd>A share", "<dd>A parab", "<dd>Simil", "<dd>Linear", "<dd>Of no") if one in found]


def test_a_term_that_the_page_says_stays() -> None:
    assert terms("The <b>ARCH</b> of a probe, by CCA: near-dead frequencies") == [
        "<dd>A parab",
        "<dd>Simil",
        "<dd>Linear",
        "<dd>Of no",
    ]
    assert terms("validation/a_1") == terms("a₁ of [CLS]") == ["<dd>A share"]
    assert terms("a near-dead<br>\n  frequency") == ["<dd>Of no"]
    assert terms("an arch") == ["<dd>A parab"]


def test_parts_of_words_tags_styles_and_other_entries_do_not_count() -> None:
    assert terms('architecture <a class="probe" href="cka">search</a>') == []
    assert with_used_terms("<p>no list, no change: Arch") == "<p>no list, no change: Arch"
