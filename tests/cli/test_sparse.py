"""`chary sparse-vector`: one pass, charged whole, that can be gone on with."""

import json

import pytest


@pytest.fixture
def asked(visits):
    return f"sparse-vector {visits} --unit patient_id --columns= --count --by clinic"


OPENING = "--above 1000 --hits 2 --epsilon 0.5"
NAMELESS = dict.fromkeys(("value", "low", "high", "caution"))


def test_one_pass_ends_at_the_last_hit_and_costs_its_epsilon(call, asked):
    code, out, err = call(f"{asked} --keys zz,a,b,c {OPENING} --values --budget-epsilon 1 --json")
    assert (code, err) == (0, "")
    figures = json.loads(out)
    assert [hit["key"] for hit in figures["above"]] == [["a"], ["b"]]
    assert all(1500 < hit["value"] < 2500 for hit in figures["above"])
    assert (figures["tested"], figures["hits"], figures["untested"], figures["hits_left"]) == (3, 2, 1, 0)
    assert figures["spent"]["share"] == 0.5
    assert 0 < figures["error_bar"] < figures["error"] < 200


def test_it_goes_on_and_a_repeated_request_is_the_same(call, asked):
    first = f"{asked} --keys zz,a {OPENING} --budget-epsilon 1 --request one --json"
    answers = [json.loads(call(first)[1]) for _ in range(2)]
    assert answers[0] == answers[1]
    assert answers[0]["above"] == [NAMELESS | {"key": ["a"]}]
    again = json.loads(call(f"{asked} --keys b,c --call {answers[0]['call']} --json")[1])
    assert (again["above"], again["untested"], again["hits_left"]) == ([NAMELESS | {"key": ["b"]}], 1, 0)
    assert again["spent"] == answers[0]["spent"]
    assert "epsilon" not in again
    code, _, err = call(f"{asked} --keys b,c --call {answers[0]['call']}")
    assert code == 3
    assert "all 2 hits of the sparse vector of call 2 are used" in err


def test_the_bar_is_placed_for_as_many_tests_as_there_are_keys(call, asked, visits):
    few, many = (
        json.loads(call(f"{asked} --keys {keys} --above 9000 --hits 2 --epsilon 0.1 --budget-epsilon 1 --json")[1])
        for keys in ("a,b", ",".join(f"k{key}" for key in range(200)))
    )
    assert few["error"] < 0.7 * many["error"]


def test_totals_bring_their_sensitivity_and_people_get_a_table(call, asked):
    question = asked.replace("--count", "--sum cost --bounds 0,50 --max-rows-per-unit 1 --columns cost=BIGINT")
    code, out, err = call(f"{question} --keys a,b,c --above 10000 --hits 3 --epsilon 1 --budget-epsilon 1")
    assert (code, err) == (0, "")
    assert "above" in out
    assert "charged 100 %, 0 % left" in out


def test_the_published_form_with_a_delta_needs_room_for_it(call, asked):
    options = f"--keys a,b {OPENING} --published --delta 1e-7 --budget-epsilon 1"
    code, _, err = call(f"{asked} {options}")
    assert code == 3
    assert "--delta-reserve" in err


@pytest.mark.parametrize(
    "options",
    [
        "--keys a,b --above 5 --hits 2",
        "--keys a,b --hits 2 --epsilon 0.1",
        "--keys a,b --above 5 --hits 0 --epsilon 0.1",
        "--keys a,b --above 5 --epsilon -1",
        "--keys a,b --call 3 --above 5",
        "--keys a,b --call 99",
        "--keys a,b --above 5 --epsilon 0.1 --delta 0.1",
        "--keys a,b --above 5 --epsilon 0.1 --published --monotone",
    ],
)
def test_bad_input_charges_nothing(call, asked, options):
    code, out, err = call(f"{asked} {options} --budget-epsilon 1")
    assert (code, out) == (2, "")
    assert err


@pytest.mark.parametrize(
    "question",
    [
        "--mean cost --bounds 0,50 --max-rows-per-unit 1",
        "--sum cost --bounds -5,5 --max-rows-per-unit 1",
        "--count --where nobody",
    ],
)
def test_a_question_that_cannot_be_asked_opens_nothing(call, asked, question):
    opening = OPENING.replace("0.5", "1")
    code, _, err = call(f"{asked.replace('--count', question)} --keys a,b {opening} --budget-epsilon 1")
    assert code == 2
    assert err
    assert call(f"{asked} --keys a,b {opening}")[0] == 2
    assert call(f"{asked} --keys a,b {opening} --budget-epsilon 2")[0] == 0


def test_a_stored_answer_says_that_it_is_free_now(call, visits):
    line = f"release {visits} --unit patient_id --columns= --count --epsilon 0.1 --budget-epsilon 1 --request one"
    assert "charged 10 %, 90 % left" in call(line)[1]
    assert "stored under this key before, free now, 90 % left" in call(line)[1]
    first, again = (call(f"{line} --json")[1] for _ in range(2))
    assert first == again
