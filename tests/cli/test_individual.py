"""`chary release-if --individual`: one stream, paid once, that the same command goes on with."""

import json

import pytest


@pytest.fixture
def asked(visits):
    common = "--count --by clinic --keys a,b,c --above 1000 --json"
    return f"release-if {visits} --unit patient_id --columns= {common}"


def test_the_same_command_goes_on_with_its_stream(call, asked, visits):
    found = []
    for options in (" --budget-epsilon 1 --budget-delta 1e-6", "", "", " --request a", " --request a"):
        code, out, err = call(f"{asked} --individual 2 --epsilon 0.02{options}")
        assert (code, err) == (0, "")
        found.append(json.loads(out))
    assert [figures["hits"] for figures in found] == [3, 3, 0, 0, 0]
    assert len({figures["spent"]["share"] for figures in found}) == 1
    assert found[0]["spent"]["share"] > 0
    code, out, _ = call(f"{asked} --individual 1 --epsilon 0.02")
    assert json.loads(out)["spent"]["share"] == pytest.approx(1.5 * found[0]["spent"]["share"])
    assert json.loads(out)["hits"] == 3


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("--individual 2", "--epsilon"),
        ("--individual 0 --epsilon 0.05", "hits"),
        ("--individual 2 --epsilon 9", "never ends"),
    ],
)
def test_what_cannot_be_opened_charges_nothing(call, asked, visits, options, told):
    code, _, err = call(f"{asked} --budget-epsilon 1 --budget-delta 1e-6 {options}")
    assert code in (2, 3)
    assert told in err
    assert "Traceback" not in err
