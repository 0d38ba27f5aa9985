"""Keys under which commands open what stays open: they stand in ledgers, and the same words find them for ever."""

import pytest

from chary.ledger import open_ledger

UNITS = "--unit patient_id --columns age=BIGINT --budget-epsilon 3 --budget-delta 1e-6"
ROWS = "--row-level --neighbors replace --columns age=BIGINT --budget-epsilon 3 --budget-delta 1e-6"
KEYED = "--count --by clinic --keys a,b --above 300"
SHARES = "--alpha 0.2 --values clinic=a,b --where clinic='a'"
KEPT = {
    f"release-if visits.csv {UNITS} {KEYED} --max-groups-per-unit 1 --individual 2 --epsilon 0.02": (
        "watch --individual 2 --epsilon-per-call 1/50"
    ),
    f"sparse-vector visits.csv {UNITS} {KEYED} --hits 1 --epsilon 0.05 --request s": "s (opening)",
    f"distinct-sketch visits.csv {UNITS} --epsilon 0.1 --request d": "d (sketch)",
    f"pmw visits.csv {ROWS} {SHARES} --hits 10": (
        "chary ask 3f10e19678d3d7d9f31ffa6dda6bf32cd7c7521e4b76e96423c545092f4f9751"
    ),
    f"pmw visits.csv {ROWS} {SHARES} --epsilon 0.03": (
        "chary ask ddb0ef10154cf3d5ed4fd3e592687a220c5504e1b6c6da76f926e8ac061a9a81"
    ),
    f"rerun visits.csv {ROWS} --rho 0.01 --count": (
        "chary grow 5b92c17a7aecbab1ffbc92a70c1e1ac313310c76d0311a28fc1f4fb484bce8fc"
    ),
}


@pytest.mark.parametrize("line", KEPT)
def test_the_opening_has_the_key_that_it_always_had(call, visits, line):
    code, _, err = call(line)
    assert (code, err) == (0, "")
    ledger = open_ledger(f"{visits}.ledger")
    opening, *_ = ledger.calls("visits")
    ledger.close()
    assert opening.request == KEPT[line]
