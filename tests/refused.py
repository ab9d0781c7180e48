"""What is refused: in one line, which says what was expected."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from isoscope.base.errors import InputError


@contextmanager
def refused(said: str) -> Iterator[pytest.ExceptionInfo[InputError]]:
    """Expect an `InputError` of one line that matches `said`."""
    with pytest.raises(InputError, match=said) as caught:
        yield caught
    assert "\n" not in str(caught.value)
