"""How many answers of a PMW run are expected to be hard: simulated on an example that is public."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from chary.amounts import Amount
from chary.calls.fields import AskedShare
from chary.calls.public_histograms import Held, HistogramLaw, HistogramMemory, ShareQuestion
from chary.core.forecast import ExpectedHard
from chary.core.plan import Data
from chary.data import NeighborRelation, RowTable, public_size, read_one_version
from chary.data.columns import Schema
from chary.errors import InvalidParameter
from chary.filters import Price
from chary.noise import Seeded, Source
from chary.numbers import whole

# Enough to see how much the noise alone changes: one takes about a second for 1,000 questions to 100,000 cells.
SIMULATIONS: Final = 5
_NOTHING: Final = Price(Amount(0), Amount(0))


def expected_hard(
    law: HistogramLaw,
    schema: Schema,
    held: Held,
    size: int,
    queries: Sequence[AskedShare],
    like: Any,
    *,
    simulations: int = SIMULATIONS,
    seed: int = 0,
) -> ExpectedHard:
    """Hard answers in simulations of these questions, in this order, to a histogram of which so much is held.

    Each simulation asks the questions of `size` rows. The same part of these rows satisfies each question as in `like`.
    It uses the tests and changes of the run, with noise of its own. `like` is a public table, or a file, with the
    columns of the universe: the rows of the dataset are not read.

    Errors: `InvalidParameter` without questions, or without an example that has rows; those of the questions.
    """
    if isinstance(queries, str) or not isinstance(queries, Iterable) or not (queries := list(queries)):
        raise InvalidParameter("list the questions that will be asked, one for each time: queries=[...]")
    if like is None:
        raise InvalidParameter("give a public table that the rows are like: like=table")
    example = RowTable.open(like, neighbor_relation=NeighborRelation("replace", None))
    law.universe.check(example.schema)
    there = public_size(example)
    if not there:
        raise InvalidParameter("the example has no rows: like= takes a table of some")
    memory, seeds = HistogramMemory(law, schema), range(seed, seed + whole(simulations, "simulations"))
    asked = [memory.asked(where, size) for where in queries]
    found = {each.text: _counted(each, example) for each in asked}
    counts = [round(found[each.text] * size / there) for each in asked]
    hard = [_hard(law, memory, held, asked, counts, Seeded(each)) for each in seeds]
    return ExpectedHard(len(asked), len(hard), sum(hard) / len(hard), min(hard), max(hard), law.most_hard(size))


def _counted(asked: ShareQuestion, example: RowTable) -> int:
    """How many rows of the example it counts."""
    values = read_one_version(example, asked.reads(example))
    return asked.counted(Data(values, Seeded(0), None, None, _NOTHING))


def _hard(
    law: HistogramLaw,
    memory: HistogramMemory,
    held: Held,
    asked: Sequence[ShareQuestion],
    counts: Sequence[int],
    source: Source,
) -> int:
    """One simulation."""
    hard = 0
    for question, rows in zip(asked, counts, strict=True):
        if law.refused(held, question.size) is None:
            checked = memory.checked(held, question, rows, law.test_at(question.size), source)
            held, hard = checked.then, hard + (checked.found.noisy is not None)
    return hard
