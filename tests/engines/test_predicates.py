"""Conditions drawn at random are of every row what three-valued logic says, on every engine that has an SQL of its own.

Many are asked in one statement. 500 are tried every time, and 26,000 by `pytest -m engines`; a quarter of each piece by
an engine that starts slowly.
"""

import pytest

from chary.data import Predicate, count
from tests.data.oracle import truth
from tests.engines import conditions
from tests.engines.cells import frame
from tests.engines.openers import DIFFERENT

TOGETHER, PIECE, ALL, USUAL = 100, 500, 52, 1
PIECES = [pytest.param(piece, marks=[pytest.mark.engines] if piece >= USUAL else []) for piece in range(ALL)]
ROWS = conditions.rows()
pytestmark = DIFFERENT


@pytest.fixture(scope="module")
def table(opened):
    return opened(frame(ROWS, conditions.SCHEMA))


@pytest.mark.parametrize("piece", PIECES)
def test_of_each_row(engine, table, tally, piece):
    # Of 100 conditions Spark's parser takes 44 of 50 s; to plan, compile and run them takes 1. Shapes that it has met
    # are parsed in a tenth of that, so what takes long is what is nested in a new way, whatever the settings.
    slow = engine.share < 1
    asked = conditions.predicates(piece, engine.times(PIECE) if slow else PIECE)
    together = engine.times(TOGETHER)
    for start in range(0, len(asked), together):
        some = asked[start : start + together]
        found = engine.together(table, some)
        rows = [ROWS[number] for number in found["n"].to_pylist()]
        assert len(rows) == len(ROWS)
        for number, predicate in enumerate(some):
            expected = [truth(predicate.condition, row) for row in rows]
            assert found[f"p{number}"].to_pylist() == expected, predicate.text
    tally("conditions of each row", len(asked) * len(ROWS))


def test_of_counts(engine, table, tally):
    """The same through a query: whether unknown or false, a row does not count, and neither does its negation."""
    asked = conditions.predicates("counts", engine.times(30))
    for predicate in asked:
        again = Predicate.parse(predicate.text)
        assert again.text == predicate.text
        truths = [truth(predicate.condition, row) for row in ROWS]
        for text, counted in ((again.text, truths.count(True)), (f"NOT ({again.text})", truths.count(False))):
            assert table.prepare(count(text)).run() == counted, text
    tally("conditions of counts", 2 * len(asked))


def test_long_ones(table):
    assert table.prepare(count(" OR ".join(["i=7"] * 1200))).run() == sum(row["i"] == 7 for row in ROWS)
    assert table.prepare(count(f"j IN ({', '.join(['9'] * 3000)})")).run() == 0
    assert table.prepare(count("(" * 20 + "j=1" + ")" * 20)).run() == sum(row["j"] == 1 for row in ROWS)


# Letters that some rules take for one another and others do not: three of sigma, the long s, both i without and with
# a dot, both of the Kelvin and the Angstrom sign, of the micro and the ohm sign, titles, and alphabets of rare use.
LETTERS = "aAéÉäÄжЖσςΣsSſßẞiIıİkK"
LETTERS += "\u212aåÅ\u212b\u00b5\u03bcΜωΩ\u2126θϑΘ\u01c4\u01c5\u01c6\u13a0\uab70\u1c80вВ\U00010428\U00010400"


def lowered(letter):
    """By Unicode's simple mapping, one letter for one, of which Python has the full one."""
    return letter.lower() if len(letter.lower()) == 1 else "i"


def test_letters_are_folded_one_by_one_in_all_alphabets(engine, opened, tally):
    schema = conditions.pa.schema({"n": "int64", "s": "string"})
    table = opened(frame([{"n": number, "s": letter} for number, letter in enumerate(LETTERS)], schema))
    for sign in ("LIKE", "ILIKE"):
        found = engine.together(table, [Predicate.parse(f"s {sign} '{letter}'") for letter in LETTERS])
        places = found["n"].to_pylist()
        for number, letter in enumerate(LETTERS):
            met = {
                LETTERS[place] for place, is_met in zip(places, found[f"p{number}"].to_pylist(), strict=True) if is_met
            }
            same = {other for other in LETTERS if lowered(other) == lowered(letter)}
            assert met == ({letter} if sign == "LIKE" else same), (sign, letter)
    tally("conditions of each row", 2 * len(LETTERS) ** 2)
