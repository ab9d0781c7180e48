"""A data set from a plugin: is the number of 'a's in a line of letters even?"""

import random

from pydantic import PositiveInt

from isoscope.plugins import dataset


@dataset("parity")
def parity(size: PositiveInt, letters: PositiveInt, seed: int):
    draw = random.Random(seed)
    lines = {" ".join(draw.choice("ab") for _ in range(letters)) for _ in range(2 * size)}
    rows = [{"sentence": line, "label": line.count("a") % 2} for line in sorted(lines)[:size]]
    draw.shuffle(rows)
    return {"train": rows[: size // 2], "validation": rows[size // 2 : -size // 4], "test": rows[-size // 4 :]}
