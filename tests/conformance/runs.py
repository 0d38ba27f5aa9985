"""How a form of run is opened and asked, what it uses up, and what nothing may show: see samples.py."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from chary.accounting import Targeted
from chary.mechanisms.additive import unpadded
from chary.mechanisms.sketches import Counters


class Question(NamedTuple):
    """The words of a question."""

    said: tuple[Any, ...]
    options: dict[str, Any]

    def ask(self, run, **more):
        return run.ask(*self.said, **self.options, **more)

    def quote(self, run):
        return run.quote(*self.said, **self.options)

    def plan(self, run):
        said = {name: value for name, value in self.options.items() if name in run.words}
        return run.plan(*self.said, **said)


def asking(*said, **options):
    return Question(said, options)


class End(NamedTuple):
    """An opening that is used up after so many answers, and what is told then."""

    opening: Callable[[], Any]
    answers: int | None
    told: str


@dataclass(frozen=True)
class Run:
    """A form of run.

    `question` is asked again and again, and `other` under its request instead; None where there is only one question.
    `used` is what a run has used up, and `took` what some answers took of it. `hidden` finds in the state that
    is kept what nothing may show, or says why there is nothing to look for. `end` is None where it never ends.
    """

    opening: Callable[[], Any]
    question: Question
    other: Question | None
    used: Callable[[Any], Any]
    took: Callable[[list[Any]], Any]
    hidden: Callable[[bytes], Any] | str
    end: End | None = None
    rows: str = "patients"
    """Of which rows it is asked: its sample says it."""
    box: Any = None
    """What is brought again."""
    followed: bool = False


def published(answers):
    return sum(answer.published for answer in answers)


def hard(answers):
    return sum(answer.hard for answer in answers)


def above(answers):
    return sum(answer.above for answer in answers)


def changes(run):
    return len(run.state.changes)


def first_kept(kept):
    """What stands first in a state that is padded."""
    return json.loads(unpadded(kept).splitlines()[0])


def floor(kept):
    """The noise of a threshold, as far as it is drawn."""
    return first_kept(kept)[0][0]


def most_hits(run):
    """Of any unit: what is published counts for all of them."""
    return max(Counters.load(run._secret()).used["used"].to_pylist(), default=0)


def charged_questions(run):
    ledger = run._spine.ledger
    return sum(call.charged.main > 0 and str(call.state) == "settled" for call in ledger.calls("data", after=run.call))


def raced(run):
    """In hits of the first target at the size of the question."""
    return json.loads(run._secret())[0] / run._spine.filter.price(Targeted("0.01")).hit.main


def registers(kept):
    """The hashes and the noise of a sketch."""
    return json.loads(first_kept(kept)[0])[2:5:2]


def tree_noise(kept):
    """The sums of a continual count, whose line comes second."""
    return json.loads(unpadded(kept.split(b"\n", 1)[1]))
