"""Every field of every call wrong in turn: the problem has the words of the constructor, and nothing is charged."""

import dataclasses

import pytest

from chary import Budget
from chary.calls import read
from chary.calls.language import spoken
from chary.calls.run import Opening
from chary.errors import CharyError
from chary.service.core.problems import FIELDS
from chary.service.core.requests import readable_kinds
from tests.conformance.sample import ROWS
from tests.conformance.samples import ALL, KINDS
from tests.service.kit import serve_visits
from tests.session.kit import shows_data

WRONG = [[], {}, "", "x", -1, 0, True, None, 1.5, [None], {"kind": "count"}, {"a": 1}, "1e400"]
ASKED = sorted(readable_kinds())
EVERYWHERE = {"above", "bins", "bounds", "column", "condition", "epsilon", "query", "universe", "where"}


def refused_by_constructor(body):
    try:
        read(body)
    except CharyError as error:
        return str(error)
    return None


@pytest.mark.parametrize("kind", ASKED)
def test_a_wrong_field_is_told_in_the_words_of_the_constructor(service, http, kind):
    sample = KINDS[kind]()
    route = "runs" if isinstance(sample, Opening) else "calls"
    body, session = sample.body(), service.datasets["visits"].session
    before, tried, shown = session.spent, 0, set()
    wrong = [body | {field.name: value} for field in dataclasses.fields(sample) for value in WRONG]
    wrong += [body | {"no such field": 1}]
    wrong += [{name: value for name, value in body.items() if name != left} for left in body if left != "kind"]
    told = [(each, words) for each in wrong if (words := refused_by_constructor(each)) is not None]
    # Of the same words one is sent: hundreds of bodies are refused alike.
    for each, words in {words: (each, words) for each, words in told}.values():
        response = http.post(f"/v1/datasets/visits/{route}", json=each)
        told = response.json()
        assert (response.status_code, told["detail"]) == (422, spoken(words, FIELDS))
        assert told.get("python", told["detail"]) == words
        shown |= set(told.get("example", ()))
        assert refused_by_constructor(each | told.get("example", {})) is None or "example" not in told
        tried += 1
    assert tried > 0
    # Of each field one learns what it may be.
    assert shown >= EVERYWHERE & set(body)
    assert session.spent == before


WORDS = {"query": {"kind": "count"}, "above": 5, "where": "clinic = 'north'", "only_new": True}
OPENINGS = [name for name in ASKED if issubclass(readable_kinds()[name], Opening)]
RICH = {"privacy_unit": None, "neighbors": "replace", "budget": Budget(epsilon=50, delta=1e-6)}


@pytest.mark.parametrize("kind", OPENINGS)
def test_a_wrong_word_to_a_run_is_a_problem_and_nothing_unforeseen(service, http, kind):
    name = f"asked of {kind}"
    serve_visits(service, name, **(RICH if ALL[kind].rows == ROWS else {"budget": RICH["budget"]}))
    place = f"/v1/datasets/{name}/runs"
    opened = http.post(place, json=KINDS[kind]().body())
    assert opened.status_code == 200, opened.text
    run = opened.json()
    words = {word: WORDS[word] for word in run["words"] if word in WORDS}
    for said in [words, *({**words, word: wrong} for word in run["words"] for wrong in WRONG), {"no such word": 1}, {}]:
        for route in ("questions", "quotes"):
            response = http.post(f"{place}/{run['run']}/{route}", json=said)
            assert response.status_code in (200, 404, 409, 422), (said, response.text)
            assert response.status_code == 200 or response.json()["detail"]
            assert not shows_data(response.text)
    assert http.post(f"{place}/{run['run']}/questions", json={"no such word": 1}).status_code == 422
    assert http.get(f"{place}/{run['run']}").json()["kind"] == kind


RACED = {"algorithm": {"kind": "test", "query": {"kind": "count"}, "above": 10**9, "epsilon": "0.01"}}


@pytest.fixture(scope="module")
def race(service, http):
    """An open race."""
    serve_visits(service, "raced", budget=RICH["budget"])
    return http.post("/v1/datasets/raced/runs", json={"kind": "best_of", "targets": ["a", "b"]}).json()["run"]


@pytest.mark.parametrize(
    "wrong", [*WRONG, {"a": {}}, {"a": {}, "b": 1}, {"a": {}, "b": {"hit": 1}}, {"a": {"q": {}}, "b": {}}]
)
@pytest.mark.parametrize("word", ["algorithm", "targets", "priors"])
def test_a_wrong_word_to_a_race_is_a_problem(http, race, word, wrong):
    right = RACED | {"targets": {"a": {}, "b": {"prior": False}}}
    place = f"/v1/datasets/raced/runs/{race}/questions"
    assert http.post(place, json=right).status_code == 200
    response = http.post(place, json=right | {word: wrong})
    assert response.status_code == 422 or (wrong is None and response.status_code == 200)
