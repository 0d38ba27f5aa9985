"""Shared by the tests of commands: what lines are made of, on the visits that their fixture writes."""

import json

from chary.calls import kinds

SECRET = "987654321"
BUDGET = "--budget-epsilon 1 --budget-delta 1e-6"
UNITS, PUBLIC = "--unit patient_id --infer-types", "--row-level --neighbors replace --infer-types"
KEYED = "--count --by clinic --keys a,b,c"
CELLS = "--bins age=0,50,100 --values clinic=a,b,c"
SMALL = "--epsilon 0.01"


def typed(kind):
    """How a kind is typed."""
    return kinds()[kind].name.replace("_", "-")


def figures(call, line):
    """What a command that works prints as JSON."""
    code, out, _ = call(line + " --json")
    assert code == 0
    return json.loads(out)


def write_visits(place, units, secret=None):
    """A row of each unit; one of them has a cost that nothing may show."""
    rows = [
        f"{unit},{unit % 100},{'abc'[unit % 3]},{secret if secret and unit == 7 else unit % 50}\n"
        for unit in range(units)
    ]
    place.write_text(f"patient_id,age,clinic,cost\n{''.join(rows)}")
    return place
