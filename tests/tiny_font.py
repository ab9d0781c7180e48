"""A font with a shape of its own for each of some characters, and a box for all others."""

from pathlib import Path

from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen

LABELS = ("हिन्दी", "العربية", "中文", "ไทย", "한국어", "🦊", "plain")
"""Names of classes; DejaVu Sans has the Arabic and the plain letters."""


def write_font(folder: Path, *, name: str = "Tiny Sans", characters: str = "".join(LABELS)) -> Path:
    """Write `tiny.ttf` into a folder; a character is a triangle whose apex its number places."""
    codes = sorted({*map(ord, characters)} | {0x20})
    named = {code: f"u{code:05x}" for code in codes}
    glyphs = {".notdef": [(100, 0), (100, 700), (800, 700), (800, 0)], named[0x20]: []}
    for place, code in enumerate(codes[1:]):
        glyphs[named[code]] = [(50, 0), (50 + 800 * place // len(codes), 700), (850, 0)]
    font = FontBuilder(1000, isTTF=True)
    font.setupGlyphOrder([*glyphs])
    font.setupCharacterMap(named)
    drawn = {}
    for glyph, points in glyphs.items():
        pen = TTGlyphPen(None)
        if points:
            pen.moveTo(points[0])
            for point in points[1:]:
                pen.lineTo(point)
            pen.closePath()
        drawn[glyph] = pen.glyph()
    font.setupGlyf(drawn)
    font.setupHorizontalMetrics(dict.fromkeys(glyphs, (900, 0)))
    font.setupHorizontalHeader(ascent=800, descent=-200)
    font.setupNameTable({"familyName": name, "styleName": "Regular"})
    font.setupOS2(sTypoAscender=800, sTypoDescender=-200, usWinAscent=800, usWinDescent=200)
    font.setupPost()
    folder.mkdir(parents=True, exist_ok=True)
    font.save(folder / "tiny.ttf")
    return folder / "tiny.ttf"
