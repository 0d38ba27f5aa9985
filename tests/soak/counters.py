"""Counters that are kept as secret state, beside what the published answers say about them."""

import json
from collections import Counter
from collections.abc import Iterator
from itertools import combinations

from chary.ledger import Ledger
from chary.mechanisms.sketches import Counters
from tests.soak.replay import Replay


def counters_differ(ledger: Ledger, replay: Replay) -> Iterator[str]:
    """What is wrong with the counters of races and of streams with individual charging."""
    right = {"best_of": _right_race, "individual_stream": _right_stream}
    for number, call in replay.calls.items():
        if call["state"] != "settled" or call["label"] not in right:
            continue
        secret = ledger.secret(number)
        if secret is None or not right[call["label"]](ledger, replay, number, secret):
            yield f"{call['label']} {number}: its counters are not those of its answers"


def _settled(replay: Replay, label: str, field: str, number: int) -> list[dict]:
    calls = [call for call in replay.calls.values() if call["label"] == label and call["state"] == "settled"]
    return [call for call in calls if json.loads(call["body"])[field] == number]


def _right_race(ledger: Ledger, replay: Replay, number: int, secret: bytes) -> bool:
    """What raced calls raised is in their records; algorithms of a race have one price here, so what they raised stands
    to each other as the hits of its targets do."""
    raised, raced = _raised(ledger, replay, number)
    calls = _settled(replay, "best_of_call", "best_of", number)
    hits = Counter(name for call in calls for name in json.loads(ledger.call(call["number"]).answer)["hits"])
    names = json.loads(ledger.call(number).body)["targets"]
    counts, counters = [hits[name] for name in names], json.loads(secret)
    by_hits = [counter - raised[name] for counter, name in zip(counters, names, strict=True)]
    alike = all(a * n == b * m for (a, m), (b, n) in combinations(zip(by_hits, counts, strict=True), 2))
    if any(call["price"][0] for call in calls if not call["hits"]):
        return alike  # every call was paid in full: nothing has to be counted
    paid = raced + sum(call["price"][0] for call in calls)
    return alike and min(counters) == paid and any(by_hits) == any(counts)


def _raised(ledger: Ledger, replay: Replay, number: int) -> tuple[Counter[str], int]:
    """By how much raced calls raised each target, and what those that raised any were charged."""
    raised, paid = Counter(), 0
    for call in _settled(replay, "best_of_ask", "best_of", number):
        found = json.loads(ledger.call(call["number"]).answer)["raised"]
        raised.update(found)
        paid += call["price"][0] if found else 0
    return raised, paid


def _right_stream(ledger: Ledger, replay: Replay, number: int, secret: bytes) -> bool:
    published = sum(call["hits"] > 0 for call in _settled(replay, "individual_ask", "individual", number))
    return Counters.load(secret).published == published
