"""What a call may cost is always said: no command has a default for it, and each refusal says a line that would do."""

import inspect
import re
import shlex
from itertools import combinations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer

from chary.calls import kinds
from chary.cli.app import app
from chary.cli.forms import WAYS
from tests.cli.kit import BUDGET, CELLS, KEYED, PUBLIC, UNITS, typed
from tests.conformance.samples import TYPED, USUAL

ROOT = typer.main.get_command(app)
SIZES = re.compile(r" --(epsilon|rho|noise) \S+")
# Kinds whose cost follows from options that each of them needs, and has no default for.
NEEDED = {"above_threshold", "agreed_tests"}
# Short forms, with all that they need but for what they may cost.
SHORT = {
    f"test visits.csv {UNITS} --count --above 10": "test",
    f"test visits.csv {UNITS} --count --above 10 --value": "release-if",
    f"release-if visits.csv {UNITS} {KEYED} --above 10 --max-groups-per-unit 1 --allow-false-alarms": "release-if",
    f"release-if visits.csv {UNITS} {KEYED} --above 10 --max-groups-per-unit 1 --below-margin --individual 2": "stream",
    f"choose visits.csv {UNITS} {KEYED}": "choose",
    f"choose visits.csv {UNITS} {KEYED} --max-groups-per-unit 1 --mechanism gaussian --low 0 --high 5000": "choose",
    f"top-k visits.csv {UNITS} {KEYED} --max-groups-per-unit 1 --k 2": "top-k",
    f"pmw visits.csv {PUBLIC} {CELLS} --alpha 0.2 --where clinic='a'": "pmw",
    f"distinct-sketch visits.csv {UNITS}": "distinct-sketch",
    f"sparse-vector visits.csv {UNITS} {KEYED} --above 10 --epsilon 0.1": "sparse-vector",
    f"sparse-vector visits.csv {UNITS} {KEYED} --above 10 --hits 1": "sparse-vector",
    f"quote visits.csv {UNITS} --count": "question",
    f"quote visits.csv {UNITS} --count --above 10": "question",
}
ASKED = {
    f"{word} patients.csv {SIZES.sub('', TYPED[name].command())}": typed(kind)
    for kind, name in USUAL.items()
    for word in ("ask", "quote")
    if kind not in NEEDED
}


@pytest.mark.parametrize("line", [*SHORT, *ASKED])
def test_a_call_without_a_cost_is_refused_with_a_line_that_works(call, visits, patients, line):
    code, out, err = call(f"{line} {BUDGET}")
    assert (code, out) == (2, "")
    assert (SHORT | ASKED).get(line, "") in err
    assert {each.name for each in visits.parent.iterdir()} == {visits.name, patients.name}
    told, _, better = err.strip().partition(", as in: ")
    typed = shlex.split(better)
    assert typed[: len(line.split()) + 1] == ["chary", *line.split()]
    assert any(told.count(example) for example in WAYS.values()) or line.startswith("sparse")
    code, _, err = call("", *typed[1:])
    assert code == 0, err


@pytest.mark.parametrize("place", ["visits.csv", "parts"])
@pytest.mark.parametrize(
    ("size", "wrong"), [("", "test has no default cost"), (" --hits 20", "a new ledger needs a budget")]
)
def test_a_line_without_a_budget_is_refused_with_one_that_works(call, visits, place, size, wrong):
    """Whether it says what it may cost or not."""
    parts = visits.with_name("parts")
    parts.mkdir()
    pq.write_table(pa.table({"patient_id": list(range(100))}), parts / "a.parquet")
    code, _, err = call(f"test {place} --unit patient_id{' --columns=' * (place != 'parts')} --count --above 5{size}")
    told, _, better = err.strip().partition(", as in: ")
    assert (code, "--budget-epsilon 1 --budget-delta 1e-6" in better) == (2, True)
    assert told.startswith(f"chary: {wrong}")
    code, _, err = call("", *shlex.split(better)[1:])
    assert code == 0, err


def test_a_track_is_not_refused_for_its_cost_before_its_step(call, visits):
    code, _, err = call(f"on-change visits.csv --unit patient_id --count {BUDGET}")
    assert (code, "'--step'" in err) == (2, True)


def test_a_password_is_not_shown_again(call):
    code, _, err = call("test postgresql://ann:geheim@db.example/clinic --table t --unit p --count --above 3")
    assert code == 2
    assert "as in: chary test postgresql://ann@db.example/clinic" in err
    assert "geheim" not in err


MORE = {
    "--hits": "3",
    "--price": "0.05",
    "--within": "700",
    "--tests": "50",
    "--confidence": "0.9",
    "--value-share": "0.3",
    "--epsilon": "0.02",
    "--rho": "0.001",
    "--delta": "1e-9",
    "--individual": "2",
    "--filter": "exact",
    "--published": None,
    "--gap": "5",
    "--mechanism": "laplace",
}


def command_of(line):
    """The command that a line enters."""
    first, _, kind, *_ = line.split()
    found = ROOT.commands[first]
    inner = getattr(found, "commands", {})
    return inner.get(kind.replace("_", "-")) or inner.get("question") or found


# Those in which several of them go together.
PRICED = {name for name, kind in kinds().items() if "price" in inspect.signature(kind).parameters}


@pytest.mark.parametrize(
    "line", [*SHORT, *(f"quote{line[3:]}" for line in ASKED if line.split()[2] in PRICED and line.startswith("ask"))]
)
def test_a_refusal_names_options_that_the_command_has(call, visits, patients, line):
    """Whatever is said together of those that its help has, and never in the words of a program."""
    visits.write_text("\n".join(visits.read_text().splitlines()[:40]) + "\n")
    options = {option for each in command_of(line).params for option in each.opts}
    usual = [(name, value) for name, value in MORE.items() if name in options and name not in line]
    known = [[name, *([] if value is None else [value])] for name, value in usual]
    for said in [*([each] for each in known), *combinations(known, 2)]:
        words = [word for option in said for word in option]
        for left in visits.parent.iterdir():
            if left not in (visits, patients):
                left.unlink()
        code, _, err = call(f"{line} {BUDGET}", *words)
        told = err.partition(", as in: ")[0]
        assert code in (0, 2, 3)
        assert set(re.findall(r"--[a-z-]+", told)) <= options, (words, told)
        assert not re.search(r"\b(epsilon|hits|price|within|tests|sure|value|below_margin)=", told), (words, told)


PURE = "--unit patient_id --infer-types --budget-epsilon 1"


@pytest.mark.parametrize(
    ("line", "frees"),
    [
        (
            "test visits.csv --count --above 100000 --hits 60",
            "would be free in a budget with a delta (--budget-delta 1e-6);",
        ),
        ("test visits.csv --count --above 100000 --epsilon 0.6", "a delta, with --epsilon 0.0"),
        (
            "classify visits.csv --count --low 3 --high 9 --epsilon 0.01",
            "would be free in a budget with a delta",
        ),
        ("release visits.csv --count --epsilon 0.01", None),
        ("choose visits.csv --count --by clinic --keys a,b --max-groups-per-unit 1 --epsilon 0.01", None),
    ],
)
def test_who_would_have_free_misses_with_a_delta_is_told_before_the_first_charge(call, visits, line, frees):
    code, _out, err = call(f"{line} {PURE}")
    assert code == 0
    assert err == "" if frees is None else err.startswith("note: misses are charged here") and frees in err
    assert "note:" not in call(f"{line} {PURE}")[2]
    visits.with_name("visits.csv.ledger").unlink()
    assert "misses are charged here" not in call(f"{line} {PURE} --budget-delta 1e-6")[2]


def test_a_refusal_under_a_pure_budget_says_the_way_out_and_what_is_lost(call, visits):
    line = f"test visits.csv --count --above 100000 {PURE}"
    assert call(f"{line} --epsilon 0.6")[0] == 0
    code, _, err = call(f"{line} --epsilon 0.6")
    assert code == 3
    assert "misses are charged here, and would be free in a budget with a delta" in err
    assert "a new ledger, which does not count what the old one spent: what both promise adds up" in err
    code, _, err = call(f"release visits.csv --count {PURE} --epsilon 0.6")
    assert (code, "a new ledger" in err) == (3, False)


def test_who_ends_free_misses_is_told_before_the_charge(call, visits):
    line = f"release visits.csv --count --epsilon 0.5 {PURE} --budget-delta 1e-6"
    assert call(line)[::2] == (0, "")
    told = "note: this call ends free misses: after it every call is charged its epsilon, hit or miss\n"
    assert call(line)[::2] == (0, told)
