"""Whatever the arguments of a call are, it is made, quoted and asked in no time, or refused in words.

`python -m tests.calls.any_arguments` runs tens of thousands of cases. The limit here is many times what the slowest
takes, so that no machine is too slow; a child that exceeds it is killed by the system.
"""

from tests.calls.any_arguments import OF_KIND, fuzz

CASES = 3 * len(OF_KIND)
SECONDS = 60


def test_calls_of_any_arguments_end_or_are_refused(record_property):
    found = fuzz(range(CASES), children=1, seconds=SECONDS)
    assert [each for each in found if each[3] is not None] == []
    assert len(found) == CASES
    assert {refused for _, _, refused, _ in found} == {True, False}
    record_property("slowest", max((seconds, case) for case, seconds, _, _ in found))
