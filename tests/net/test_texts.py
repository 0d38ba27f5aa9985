"""The SQL of every form, the help and figures of every command, and the document of the HTTP API are as they were."""

import pytest

from tests.net.kept import compare
from tests.net.record import parts

TEXTS = parts()["texts"]
pytestmark = pytest.mark.net


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
def test_a_text_is_what_it_was(path):
    make, *given = TEXTS[path]
    assert compare(path, make(*given)) == []
