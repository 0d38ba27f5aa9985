"""Fields that name earlier calls: a service asks of each whether that call is shown."""

from dataclasses import fields

from chary.calls.call import EARLIER, MEANINGS, kinds


def test_whatever_names_an_earlier_call_is_known():
    named = {
        each.name
        for kind in kinds().values()
        for each in fields(kind)
        if "number of the call" in {**MEANINGS, **kind.meanings}.get(each.name, "").lower()
    }
    assert named == set(EARLIER)
