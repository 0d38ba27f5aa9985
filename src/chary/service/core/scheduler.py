"""The scheduler of subscriptions: asks each of them once about every version of its rows."""

from collections import defaultdict
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Any, Final, NamedTuple

from chary.amounts import Amount
from chary.answers import Answer, Key
from chary.calls.alerts import Alert, AlertAnswer, AlertAnswers, AlertRun, state_of
from chary.calls.call import read
from chary.calls.run import Opening, Run
from chary.calls.weights import WeightedAnswer
from chary.client.problems import Refusal
from chary.core.charges import charged_in
from chary.core.transaction import numbered
from chary.errors import BudgetExceeded, CharyError, InvalidInput, InvalidParameter, InvalidQuery, NotWithheld
from chary.ledger import Parts, State, together
from chary.numbers import exact
from chary.service.auth.tokens import BearerTokens, Principal
from chary.service.core import alerts
from chary.service.core.alerts import APPEND, ENDED, NEVER, Feed, News, StandingBook, StandingQuestion
from chary.service.core.audit_trail import LOG
from chary.service.core.calculations import Calculations, Workers
from chary.service.core.datasets import Served, ServedDatasets, SharedAnswers, rows_of, standing_key
from chary.service.core.requests import Wish, fulfilled, run_shown, shown_call, words_of
from chary.session import Quote, Session

WEEK: Final = 7 * 86_400.0
# A warning comes when this many weeks are left at the rate so far; a rate needs some hits and an hour.
WARNING_WEEKS: Final = 8.0
_HITS_FOR_RATE: Final = 3
_SECONDS_FOR_RATE: Final = 3_600.0
# The longest pause in seconds after a failure, and the number of failures in a row that makes an event.
_LONGEST_PAUSE: Final = 600.0
_FAILURES_TOLD: Final = 3
# Datasets whose subscriptions are asked at once.
_DATASETS: Final = 64
_TOO_SMALL: Final = "one answer could cost more than this share: give it a larger one"
_ALONE: Final = (
    "the histogram answers alone: no answer can be checked or charged now, and nothing is reported of it until one can"
)


class Failures(NamedTuple):
    """How often in a row a subscription could not be asked, and the time before which it is not tried again."""

    times: int
    until: float


_NO_FAILURE: Final = Failures(0, 0.0)


@dataclass(frozen=True)
class StandingRunner:
    """Asks the subscriptions that are due.

    Guarantee: each version is asked about at most once, under an idempotency key made of the subscription and the
    version. So two processes, or one that is killed and restarted, pay once and add one event. A subscription at
    appends is asked about every version in order, with the rows as of that version. A version that is left out has an
    event "skipped" with the reason. The charges never exceed its fraction: a subscription ends before a call that could
    exceed it. Calls that failed or were killed count with what the ledger charged them.

    A version is left out if it came during a pause, or if the source cannot tell its rows from later ones. So is one
    whose run was asked about a later version meanwhile.
    """

    datasets: ServedDatasets
    tokens: BearerTokens
    book: StandingBook
    feed: Feed
    answers: SharedAnswers
    calculations: Calculations
    failures: dict[str, Failures] = field(default_factory=dict)
    workers: Workers = field(default_factory=lambda: Workers(_DATASETS), repr=False)

    def stand(self, served: Served, who: Principal, wish: Wish, quoted: Quote, **said: Any) -> StandingQuestion:
        """Make a subscription. At appends it is asked about the versions after the current one, at times also about
        that one.

        Errors: `InvalidParameter` if its fraction does not pay for one answer, and for the token of an issuer.
        """
        if not self.tokens.keeps(who.token):
            raise InvalidParameter(
                "a subscription lives as long as its token, and one of an issuer ends within minutes: create "
                "it with one that a custodian made here"
            )
        if wish.action == "ask" and isinstance(read(wish.body), Opening):
            raise InvalidParameter("this opens a run: start it, and let a question to it stand")
        share = max(Fraction(0), exact(said["share"], "share"))
        if not _within(served.session, share, quoted, (Amount(0), 0)):
            raise InvalidParameter(_TOO_SMALL)
        known = version_of(served) if said["every"] == APPEND else NEVER
        return self.book.add(who, served.name, wish, known, **said)

    def tick(self) -> int:
        """Ask all subscriptions that are due; returns how many calls were made."""
        return sum(future.result() for future in self.begin())

    def begin(self) -> "list[Future[int]]":
        """Start to ask what is due, each dataset in a thread of its own, so that a slow one delays no other.

        A dataset with a running thread is left alone. Each future holds the number of calls made.
        """
        due: dict[str, list[StandingQuestion]] = defaultdict(list)
        for each in self.book.all(active=True):
            due[each.dataset].append(each)
        return self.workers.begin({dataset: partial(self._ask_all, each) for dataset, each in due.items()})

    def close(self, seconds: float) -> int:
        """Start nothing more, and wait this long for running threads; returns how many datasets still have one."""
        return self.workers.close(seconds)

    def _ask_all(self, subscriptions: list[StandingQuestion]) -> int:
        """Ask each about every version that is due, also about new ones; returns how many calls were made."""
        asked = 0
        for standing in subscriptions:
            while not self.workers.closing and self._tried(standing):
                asked, standing = asked + 1, self.book.found(standing.standing)
        return asked

    def _tried(self, standing: StandingQuestion) -> bool:
        """Whether a call was made; an error is logged, so that the other subscriptions are asked all the same."""
        try:
            return self._asked(standing)
        except Exception as error:
            LOG.error('{"event": "standing", "error": "%s"}', type(error).__name__)
            return False

    def _asked(self, standing: StandingQuestion) -> bool:
        served = self.datasets.get(standing.dataset)
        now = self.book.clock()
        if served is None or not standing.came(now) or now < self.failures.get(standing.standing, _NO_FAILURE).until:
            return False
        if not standing.due(version_of(served), now):
            self.book.look(standing, now)
            return False
        try:
            # Appends are locked out, so the rows read are those of the version that is recorded.
            with served.growing, self.book.held(rows_of(served.name)):
                return self._asked_about(served, standing, version_of(served))
        except Refusal:
            return False  # another process asks or appends: try again at the next tick

    def _asked_about(self, served: Served, standing: StandingQuestion, latest: int) -> bool:
        taken = self.book.take(standing.standing)
        if taken is None:
            return False
        if not taken.due(latest, self.book.clock()):
            self.book.keep(taken.standing)
            return False
        if taken.missed is not None:
            taken = self.feed.skip(taken, taken.missed, "it was paused")
        try:
            self._ask(served, taken, latest)
        except Exception as error:  # the other subscriptions still have their turn
            self._failed(taken, taken.next(latest), error)
        else:
            self.failures.pop(taken.standing, None)
        return True

    def _ask(self, served: Served, standing: StandingQuestion, latest: int) -> None:
        version, who = standing.next(latest), self.tokens.holder(standing.token)
        valid = who is not None and who.may("stand") and who.sees(served.name)
        if who is None or not valid or not _has_run(served, standing):
            self._end(standing, version, _NO_RUN if valid else "its token is not valid any more")
            return
        now = served.acting(who)
        # A call that was answered before a crash is replayed from the ledger, without reading rows.
        earlier, session = version < latest and not self.answers.has(now, key_of(standing, version)), now
        try:
            if earlier or _has_window(now, standing):
                session = now.as_of(version)
        except InvalidQuery as error:
            if earlier:
                standing, version, earlier = self.feed.skip(standing, latest - 1, str(error)), latest, False
        try:
            quoted = self.calculations.now(lambda: quote_of(served, who, session, standing.wish))
            if not _within(session, standing.share, quoted, self._charged(session, standing, version, quoted.parts)):
                self._unpaid(now, standing, version, "the next answer could cost more than is left of its part")
                return
            key = key_of(standing, version)
            begins = int(quoted.most != Amount(0))  # a round that is open at the quote may have ended at the call
            answer = fulfilled(self.answers, served, who, session, standing.wish, key, begins=begins)
        except InvalidInput as error:
            if earlier:  # later versions may still be possible
                self.feed.skip(standing, version, str(error))
                self.book.keep(standing.standing)
            else:
                self._end(standing, version, str(error))
        except BudgetExceeded as error:
            self._unpaid(now, standing, version, str(error))
        else:
            spine = session.spine
            charged = charged_in(spine.ledger, spine.dataset, spine.filter, *self._charged(session, standing)).share
            told = replace(standing, charged=charged)
            self._answered(session, told, version, answer, quoted)

    def _failed(self, standing: StandingQuestion, version: int, error: Exception) -> None:
        """Schedule another try, after a pause that doubles each time, and add an event from the `_FAILURES_TOLD`-th
        failure on. The event has the message of an error of chary, and only the type of any other.
        """
        LOG.error('{"event": "standing", "error": "%s"}', type(error).__name__)
        before = self.failures.get(standing.standing, _NO_FAILURE)
        failed = Failures(before.times + 1, self.book.clock() + min(_LONGEST_PAUSE, 2.0**before.times))
        self.failures[standing.standing] = failed
        if failed.times >= _FAILURES_TOLD:
            why = str(error) if isinstance(error, CharyError) else type(error).__name__
            self.feed.add(standing, News("failing", version, None, f"it cannot be asked, and is tried again: {why}"))
        self.book.keep(standing.standing)

    def _charged(
        self, session: Session, standing: StandingQuestion, about: int | None = None, parts: Parts | None = None
    ) -> tuple[Amount, int]:
        """What the ledger charged the subscription, including calls that failed or were killed, and its part in the
        basic account. Left out are the answer about this version, which is replayed for free, and rounds that were
        reserved for it, which may be over. If the budget renews: the charge of the most expensive block, among those
        asked about next if `parts` are given.
        """
        spine = session.spine
        if spine.blocks is not None:
            again, keys = None if about is None else key_of(standing, about), key_of(standing, "")
            calls = spine.ledger.calls(spine.dataset, analyst=spine.analyst, keys=keys)
            others = (call for call in calls if call.request != again or call.state != State.SETTLED)
            names = None if parts is None else parts.names
            return together(((call.parts, call.charged) for call in others), names), 0
        found = spine.ledger.charged_under(spine.dataset, spine.analyst, key_of(standing, ""))
        charged, basic = found.spent, 0 if found.basic is None else found.basic.spent
        if about is not None:
            key = key_of(standing, about)
            for call in spine.ledger.calls(spine.dataset, analyst=spine.analyst, keys=key):
                if call.request == key and call.state == State.SETTLED:
                    charged, basic = charged - call.charged, basic - call.basic
        return charged, basic

    def _answered(
        self, session: Session, standing: StandingQuestion, version: int, answer: Answer, quoted: Quote
    ) -> None:
        """Add the events of an answer and store the counts; `standing` has its current charge. An answer of a histogram
        alone, without a check against the rows, makes no call.
        """
        alone = isinstance(answer, WeightedAnswer) and not answer.verified
        for news in [News("unverified", 0, None, _ALONE)] if alone else outcomes(session, standing, version, answer):
            self.feed.add(standing, news)
        hits = standing.hits + answer.hit
        left = None if quoted.hits_left is None else quoted.hits_left - 1
        told = running_out(replace(standing, hits=hits), replace(quoted, hits_left=left), self.book.clock())
        if told and not _moves_on(session, standing):
            self.feed.add(standing, News("running out", 0, None, told))
        done: dict[str, Any] = {"charged": standing.charged, "hits": hits, "runs": standing.runs + (not alone)}
        self.book.keep(standing.standing, version=version, looked=self.book.clock(), **done)

    def _unpaid(self, session: Session, standing: StandingQuestion, version: int, why: str) -> None:
        """End a subscription that cannot pay; if later versions read other blocks, only skip this one."""
        if _moves_on(session, standing):
            self.feed.skip(standing, version, why)
            self.book.keep(standing.standing, looked=self.book.clock())
        else:
            self._end(standing, version, why)

    def _end(self, standing: StandingQuestion, version: int, why: str) -> None:
        self.feed.add(standing, News("ended", version, None, why))
        self.book.keep(standing.standing, state=ENDED)


def _within(session: Session, share: Fraction, quoted: Quote, charged: tuple[Amount, int]) -> bool:
    """Whether the next answer keeps the subscription within its fraction in every account, whatever its outcome."""
    accounts, (amount, basic) = session.spine.accounts(), charged
    if quoted.ends_free_misses:
        accounts = accounts.told_alone()
    return accounts.within(share, amount + quoted.most, basic + quoted.basic)


def opened(served: Served, who: Principal, wish: Wish, name: str) -> tuple[Wish, Run[Any, Any] | None]:
    """What a subscription asks: for an alert a question to its run, which is opened here; otherwise the call itself.

    Guarantee: an alert is opened once under each name, also after an interruption. Opening is free.
    """
    call = _alert_of(wish)
    if call is None:
        return wish, None
    run = served.acting(who).start(call, request=_opening_key(name))
    return Wish("question", {}, run.call, opened=True), run


_NO_RUN: Final = "its run is not in this ledger, which is an older copy or another one"


def _opening_key(name: str) -> str:
    return f"standing {name} is opened"


def _has_run(served: Served, standing: StandingQuestion) -> bool:
    """Whether the run that was opened for a subscription is in the ledger. Numbers of calls come again where a ledger
    was restored, and its questions would be put to the other run. Not known of those of earlier versions."""
    if not standing.wish.opened:
        return True
    try:
        return numbered(served.session.spine, standing.wish.run or 0).request == _opening_key(standing.standing)
    except NotWithheld:
        return False


def _alert_of(wish: Wish) -> Alert | None:
    """The alert that a request opens; None for any other request."""
    call = read(wish.body) if wish.action == "ask" else None
    return call if isinstance(call, Alert) else None


def check_change_fits(served: Served, wish: Wish, share: Fraction, quoted: Quote) -> None:
    """Refuse an alert, before it is opened, whose fraction does not pay for one change."""
    call = _alert_of(wish)
    if call is not None and quoted.later_hit is not None:
        parts = call.counted.reach(served.session.spine.rows.neighbor_relation)
        if parts * quoted.later_hit > share:
            raise InvalidParameter(_TOO_SMALL)


def version_of(served: Served) -> int:
    """The current version of the rows; 0 if they never grew, since their size is secret then."""
    versions = served.session.versions
    return versions[-1].number if versions else 0


def key_of(standing: StandingQuestion, version: int | str) -> str:
    """The idempotency key of a subscription for a version; with an empty version the prefix of all its keys."""
    return standing_key(standing.standing, version)


def quote_of(served: Served, who: Principal, session: Session, wish: Wish) -> Quote:
    """The cost of asking it now; raises what asking it would raise."""
    if wish.action == "question":
        run = run_shown(served, who, session, wish.run or 0)
        return run.quote(**words_of(run, wish.body))
    return session.quote(shown_call(served, who, session, wish.body))


def _has_window(session: Session, standing: StandingQuestion) -> bool:
    """Whether it is an alert at appends with a window that ends when the version came: then rows are read as of the
    version.
    """
    run = alert_run(session, standing) if standing.every == APPEND else None
    return run is not None and run.opened.window is not None and "at" not in standing.wish.body


def _moves_on(session: Session, standing: StandingQuestion) -> bool:
    """Whether later versions read later blocks, so that the blocks spent now are left behind."""
    spine = session.spine
    if spine.blocks is None:
        return False
    if spine.blocks.kept is not None:
        return True
    run = alert_run(session, standing)
    return run is not None and run.opened.window is not None and run.opened.column_in(spine) == spine.blocks.column


def outcomes(session: Session, standing: StandingQuestion, version: int, answer: Answer) -> list[News]:
    """The events of an answer: for an alert which groups fired and which cleared, otherwise whether it is a hit."""
    run = alert_run(session, standing)
    if run is not None and isinstance(answer, (AlertAnswer, AlertAnswers)) and answer.hit:
        severity, note = run.opened.severity, run.opened.note
        return [
            News(kind, version, answer.call, "", severity, note, tuple(map(group_told, keys)))
            for kind, keys in _transitions(answer).items()
        ]
    if answer.hit or standing.tell == "all":
        return [News(alerts.HIT if answer.hit else alerts.ANSWER, version, answer.call, "")]
    return []


def alert_run(session: Session, standing: StandingQuestion) -> AlertRun | None:
    """The run of an alert; None for a subscription of another kind."""
    number = standing.wish.run
    try:
        if number is None or numbered(session.spine, number).kind != Alert.kind:
            return None
        run = session.resume(number)
    except NotWithheld:  # the ledger was restored to an older state
        return None
    return run if isinstance(run, AlertRun) else None


def group_told(key: Any) -> str:
    """The name of a group of an alert.

    >>> group_told(("north", 2012)), group_told(2012)
    ('north, 2012', '2012')
    """
    return ", ".join(map(str, key)) if isinstance(key, tuple) else str(key)


def _transitions(answer: AlertAnswer | AlertAnswers) -> dict[str, list[Key]]:
    """The groups that fired and those that cleared; an empty list stands for an alert without groups."""
    if isinstance(answer, AlertAnswer):
        return {alerts.FIRED if answer.active else alerts.CLEARED: []}
    found: dict[str, list[Key]] = {}
    for key, state in zip(answer.keys, answer.states, strict=True):
        if key in answer.changed:
            found.setdefault(alerts.FIRED if state == state_of(True) else alerts.CLEARED, []).append(key)
    return found


class Lasting(NamedTuple):
    """How many hits a subscription has left, and how many weeks they last at the rate so far."""

    hits: int
    weeks: float | None


def lasting(standing: StandingQuestion, quoted: Quote, now: float) -> Lasting | None:
    """How long a subscription lasts; None if its hits are free."""
    if not quoted.price_if_hit:
        return None
    own = int((float(standing.share) - standing.charged) / quoted.price_if_hit)
    left = max(0, own if quoted.hits_left is None else min(own, quoted.hits_left))
    passed = now - standing.created
    known = standing.hits >= _HITS_FOR_RATE and passed >= _SECONDS_FOR_RATE
    return Lasting(left, left * passed / WEEK / standing.hits if known else None)


def running_out(standing: StandingQuestion, quoted: Quote, now: float) -> str:
    """The warning for a subscription that runs out within `WARNING_WEEKS` at the rate so far; empty for any other."""
    last = lasting(standing, quoted, now)
    if last is None or last.weeks is None or last.weeks > WARNING_WEEKS:
        return ""
    return f"{last.hits} hits are left, which last {last.weeks:.3g} weeks at the rate so far"
