"""Long ledgers, made in seconds: entries by the ledger's own statements, many in a transaction."""

import json

from chary.amounts import Amount
from chary.ledger.entries import reserving, settling
from chary.ledger.store import Closing

RELEASE = '{"epsilon":"0.01","query":{"kind":"count","where":"age >= 0"}}'
ANSWERED = "41"


def lengthened(ledger, dataset, calls, analysts, like=None):
    """Add so many settled releases of these analysts in turn, with bodies and the answer of one that is there."""
    body, answer = (RELEASE, ANSWERED) if like is None else (like.body, like.answer)
    asked = json.loads(body)
    known = set(ledger.analysts(dataset))
    with ledger.store.transactions.writing() as connection:
        number, sealed = ledger.store.transactions.bookmark.read(connection)
        for place in range(calls):
            asked["query"]["where"] = f"age >= {place % 90}"
            body = json.dumps(asked, sort_keys=True, separators=(",", ":"))
            analyst = analysts[place % len(analysts)]
            entry = reserving(number + 1, dataset, analyst, "release", body, Amount(1), f"key {number}")
            sealed = ledger.store.upkeep.post(connection, sealed, entry, known=analyst in known)
            closed = settling(number + 2, entry, Amount(1), 0, 0, answer)
            sealed = ledger.store.upkeep.post(connection, sealed, closed, Closing(entry, answer))
            number, known = number + 2, known | {analyst}
