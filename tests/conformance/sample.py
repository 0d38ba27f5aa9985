"""What a sample is: a way of asking a kind, how its run is asked, what it uses up and what nothing may show."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from chary.accounting import Targeted
from chary.calls.run import Opening
from chary.mechanisms.additive import unpadded
from chary.mechanisms.sketches import Counters
from tests.cli.kit import typed
from tests.session.kit import PUBLIC

PATIENTS, REPLACED, ROWS, VOTES = "patients", "replaced", "rows", "votes"
# Of which rows a sample is asked: how they are opened, and how a command says it.
NEIGHBORS = {PATIENTS: {"privacy_unit": "patient"}, REPLACED: {"privacy_unit": "patient", "neighbors": "replace"},
             ROWS: PUBLIC}  # fmt: skip
SAID = {PATIENTS: "--unit patient --infer-types", REPLACED: "--unit patient --neighbors replace --infer-types",
        ROWS: "--row-level --neighbors replace --infer-types"}  # fmt: skip


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


@dataclass(frozen=True)
class Sample:
    """A way of asking a kind of call.

    `call` makes the call, which is asked as it is. Of questions to runs, and of what goes on from an earlier call,
    `prepared` takes a session and a name, does what comes first, and returns how to ask under a request key. Where
    there are both, ledgers that are kept ask what is prepared.
    """

    call: Callable[[], Any] | None = None
    prepared: Callable[[Any, str], Callable[[str | None], Any]] | None = None
    rows: str = PATIENTS
    typed: str | None = None
    """The options of its command."""
    free: bool = False
    """Whether it never costs anything itself."""
    code: bool = False
    """Whether it brings code of its author's, which no service runs."""
    public: bool = False
    """Whether all of the state that it keeps is public, or of a length that is that of numbers of a fixed size."""
    run: Run | None = None

    @property
    def kind(self):
        return self.call().kind

    def command(self, options=None):
        """What is typed: its kind, its rows, and its options or others."""
        return f"{typed(self.kind)} {SAID[self.rows]} {self.typed if options is None else options}"

    def __call__(self, session, name):
        """Do what comes first; how to ask then."""
        if self.prepared is not None:
            return self.prepared(session, name)
        return lambda key: asked(session, self.call(), key)


def asked(session, call, key):
    """An answer; of what stays open its number."""
    return session.start(call, request=key).call if isinstance(call, Opening) else session.ask(call, request=key)


def question(word, opening, *said, rounds=False, **options):
    """A question to a run that is open, and in a round."""

    def prepared(session, name):
        run = session.start(opening(), request=f"{word} {name}")
        if rounds:
            run.ask(request=f"round {name}")
        return lambda key: run.ask(*said, **options, request=key)

    return prepared


def after(held, word="before"):
    """What goes on from an earlier call."""

    def prepared(session, name):
        call = held(session, f"{word} {name}")
        return lambda key: session.ask(call, request=key)

    return prepared


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
