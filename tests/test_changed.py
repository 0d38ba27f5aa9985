"""Which tests a change concerns."""

import pytest

from tests.changed import concerning


@pytest.mark.parametrize(
    ("path", "concerned"),
    [
        ("src/chary/learning/estimators.py", "tests/learning/test_counting_bayes.py"),
        ("src/chary/service/pages/templates/ask.html.jinja", "tests/service/test_page_forms.py"),
        ("src/chary/cli/ledger.py", "tests/cli/test_books.py"),
        ("tests/conformance/samples.py", "tests/conformance/test_kills.py"),
    ],
)
def test_what_rests_on_a_file_is_run_and_what_does_not_is_left(path, concerned):
    found = concerning([path])
    assert concerned in found
    assert "tests/noise/test_noise_laws.py" not in found


def test_what_no_import_tells_concerns_all_tests_or_itself():
    assert concerning(["pyproject.toml"]) is concerning(["tests/servers/postgres.py"]) is None
    assert concerning(["docs/howto/service.md", "docs/gone.md"]) == ["docs/howto/service.md"]
    assert concerning([]) == concerning(["LICENSE"]) == []
