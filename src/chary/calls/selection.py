"""Selection of several: candidates above a threshold, top k, greedy covers, withheld selections."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, Final, Literal, Self

from chary import noise
from chary.accounting import Event, Extendable, LargestOf, Targeted
from chary.answers import Key, handed_out, scalar, with_bytes
from chary.calls import compute, thresholds
from chary.calls import sharpness as sharp
from chary.calls.algorithm import Algorithm, When, canonical_outcome
from chary.calls.answers import Chosen, Coverage, Gathered, Hits, Ranking, Selected, published_best
from chary.calls.call import Call, call
from chary.calls.fields import Candidates, Condition, Exact, Positive, Whole
from chary.calls.withheld import EXTENDS, Widen, extension
from chary.core import plan
from chary.core.forecast import Forecast, error_bar
from chary.core.plan import AnswerT, Data, Json, PerHit, Plan, Result, natural, reading, steps_at_least
from chary.core.transaction import Spine
from chary.data import Count, Predicate, Query, Reading, Rows
from chary.data.queries.sums import any_of
from chary.errors import AlgorithmFailed, BudgetExceeded, InvalidParameter, InvalidQuery, NotWithheld
from chary.mechanisms import Additive, OneShotTopK
from chary.mechanisms.additive import padded, unpadded
from chary.mechanisms.choices import Score
from chary.numbers import CONFIDENT, plain

# Private algorithms side by side, each returning a score and a solution.

Scored = tuple[Score, Any] | None


def side_by_side(
    call: Call[AnswerT],
    algorithms: Sequence[Algorithm],
    told: Json,
    event: Callable[[Fraction, Fraction], Event],
    run: Callable[[Callable[[int], Scored], int | None], Result],
    present: Callable[[Json, int], AnswerT],
    cost: PerHit,
) -> Plan[AnswerT]:
    """Private algorithms side by side, each returning [score, solution]; neighbours may differ in all of them.

    `run` takes a function that runs the candidate at a position, and the number of hits that were paid for. `told`
    identifies the question together with the algorithms. `event` takes the largest epsilon and the mean of the deltas,
    of which each part carries one, so that they add up.
    """
    epsilon = max(algorithm.size[0] for algorithm in algorithms)
    delta = sum((algorithm.size[1] for algorithm in algorithms), Fraction(0)) / len(algorithms)
    # Rows of the same columns are read once.
    apart = [algorithm.columns if type(algorithm) is Algorithm else algorithm.name for algorithm in algorithms]
    read: dict[Any, Algorithm] = {}
    for rows, algorithm in zip(apart, algorithms, strict=True):
        read.setdefault(rows, algorithm)
    places = {rows: place for place, rows in enumerate(read)}

    def outcome(data: Data, position: int) -> Scored:
        return scored(algorithms[position], data.values[places[apart[position]]], data.source)

    def each(data: Data) -> Result:
        return run(partial(outcome, data), data.most_hits)

    def reads(rows: Rows) -> list[Reading]:
        return [algorithm.prepare(rows) for algorithm in read.values()]

    size = {"epsilon": str(epsilon), "parallel": len(algorithms)}
    body = plan.ENCODER.encode({"candidates": [algorithm.body() for algorithm in algorithms]} | size | told)
    return Plan(call.kind, body, event(epsilon, delta), each, present, reads, cost)


def names_of(algorithms: Sequence[Algorithm]) -> list[str]:
    """The names of these algorithms."""
    return [algorithm.name for algorithm in algorithms]


def chosen_of(names: Sequence[str], answer: Json) -> tuple[Chosen, ...]:
    """The published candidates of an answer."""
    parts = zip(answer["positions"], answer["scores"], answer["solutions"], strict=True)
    return tuple(Chosen(names[position], score, with_bytes(solution)) for position, score, solution in parts)


def published(found: Mapping[int, Scored], *, tests: int) -> Result:
    """The result that publishes these candidates, by position; each of them is a hit."""
    scores, solutions = ([None if outcome is None else outcome[part] for outcome in found.values()] for part in (0, 1))
    answer = {"positions": list(found), "scores": scores, "solutions": solutions, "tested": tests}
    return Result(answer, hits=len(found), tests=tests)


def scored(algorithm: Algorithm, rows: Any, source: noise.Source) -> Scored:
    """The score and the solution of one run; None if it raised or returned no such pair."""
    try:
        return scored_of(algorithm.outcome(rows, source), alone=isinstance(algorithm, compute.CalledOnce))
    except AlgorithmFailed:
        return None


def scored_of(outcome: Any, *, alone: bool) -> Scored:
    """An outcome as score and solution, or, `alone`, as the score of a call; None for anything else."""
    score, solution = (
        (outcome, None) if alone else outcome if isinstance(outcome, list) and len(outcome) == 2 else (None, None)
    )
    return None if isinstance(score, bool) or not isinstance(score, (int, float)) else (score, solution)


# Candidates that are counted, and calls that are made one after another.

Named = tuple[Key | str, Predicate]
# Each step of a greedy choice is a transaction, whose question excludes all candidates chosen before.
MOST_CANDIDATES: Final = 1000


def one_after_another(spine: Spine, plans: Iterable[Plan[AnswerT]], request: str | None) -> Iterator[AnswerT]:
    """The answers of one plan after another, each a transaction of its own, until one that is not the first is refused
    for the budget. Each plan is made when the answer before it is known."""
    for place, asked in enumerate(plans):
        try:
            answer = spine.perform(asked, None if request is None else f"{request}/{place}")
        except BudgetExceeded:
            if not place:
                raise
            return
        yield answer


def conditions_of(candidates: Query | Sequence[Any]) -> list[Named]:
    """Each candidate's name and condition; `InvalidQuery` for what has no conditions, one twice, or more than 1,000."""
    if isinstance(candidates, Count):
        _check_number(len(candidates.keys or ()))
        return list(zip(candidates.keys or (), candidates.conditions(), strict=True))
    if isinstance(candidates, (str, Query)) or not isinstance(candidates, Sequence) or not candidates:
        raise InvalidQuery('candidates are a count with public keys, or conditions such as ["age >= 65", "smoker"]')
    _check_number(len(candidates))
    conditions = [Predicate.parse(condition) if isinstance(condition, str) else condition for condition in candidates]
    if not all(isinstance(condition, Predicate) for condition in conditions):
        raise InvalidQuery('each candidate is a condition, such as "age >= 65"')
    if len(set(conditions)) != len(conditions):
        raise InvalidQuery("candidates must be different conditions")
    return [(condition.text, condition) for condition in conditions]


def _check_number(candidates: int) -> None:
    if candidates > MOST_CANDIDATES:
        raise InvalidQuery(f"give at most {MOST_CANDIDATES:,} candidates, not {candidates:,}")


# Selections that withhold outcomes, and their extensions: the same outcomes under another condition.

# Bytes for the position of an outcome and the separators beside it.
_BESIDE: Final = 32

Pairs = dict[int, tuple[Any, Any]]


def reselection(widen: Widen, original: Json, name: str) -> Plan[Selected]:
    """The plan that publishes the withheld outcomes of a selection, with this body, that meet the condition now."""
    if "room" not in original:
        raise NotWithheld(f"call {widen.held} withholds no outcomes: {name} keeps them with room= only")
    names, parts = [each["algorithm"] for each in original["candidates"]], original["parallel"]

    def run(data: Data) -> Result:
        kept, tested = restored(data.secret or b""), 0
        found: dict[int, Scored] = {}
        while tested < parts and len(found) != data.most_hits:
            if tested in kept and (met := _met(widen, kept[tested])) is not False:
                outcome = kept.pop(tested)
                found[tested] = outcome if met else None
            tested += 1
        told = published(found, tests=tested)
        return replace(told, secrets={widen.held: stored(kept, original["room"], parts)})

    cost = replace(EXTENDS, parts=parts, halts=True)
    return extension(widen, "reselect", original, run, partial(_selected_of, names), cost=cost)


def _selected_of(names: Sequence[str], answer: Json, number: int) -> Selected:
    keys = tuple((name,) for name in names)
    return Selected(number, ("name",), keys, chosen_of(names, answer), answer["tested"])


def _met(widen: Widen, outcome: tuple[Any, Any]) -> bool | None:
    """Whether the outcome is published; None if the condition raised."""
    if widen.above is not None:
        return bool(outcome[0] >= Fraction(widen.above))
    try:
        return widen.when is not None and widen.when(list(outcome))
    except AlgorithmFailed:
        return None


def fitting(outcome: Scored, room: int) -> Scored:
    """The outcome if it fits into `room` bytes; one that does not fit has failed, like a run that raised."""
    if outcome is None or len(canonical_outcome(list(outcome)).encode()) > room:
        return None
    return outcome


def stored(outcomes: Pairs, room: int, candidates: int) -> bytes:
    """Withheld outcomes by their positions, padded to a length that does not depend on them."""
    told = json.dumps([[position, *outcome] for position, outcome in outcomes.items()], separators=(",", ":"))
    return padded(told.encode(), (room + _BESIDE) * candidates)


def restored(secret: bytes) -> Pairs:
    """The outcomes that `stored` wrote."""
    kept: Iterable[list[Any]] = json.loads(unpadded(secret))
    return {position: (score, solution) for position, score, solution in kept}


def check_room(room: int, candidates: int) -> None:
    """Refuse more than a ledger should hold."""
    if room * candidates > compute.MOST_ROOM:
        raise InvalidParameter(f"room= for all candidates must be at most {compute.MOST_ROOM} bytes together")


# Public candidates against a threshold: groups of a query, or conditions, each tested alone and published with its
# value.


def selected(call: "Select", spine: Spine, law: sharp.TestLaw) -> Plan[Selected]:
    """The plan that tests each candidate by this distribution; a unit may meet every condition."""
    query, neighbor_relation = call.query, spine.rows.neighbor_relation
    reads: list[Query] = [query]
    columns, keys = query.columns, tuple(query.keys or ())
    if query.keys is None:
        conditions: Any = call.candidates
        named = conditions_of(conditions)
        reads = [Count(where=condition) for _, condition in named]
        columns, keys = ("condition",), tuple((condition.text,) for _, condition in named)
    threshold = steps_at_least(call.above, query.grid)

    def present(answer: Json, number: int) -> Selected:
        above = tuple(
            Chosen(scalar(keys[position]), natural(steps, query.grid))
            for position, steps in zip(answer["positions"], answer["noisy"], strict=True)
        )
        told = law.published(query, neighbor_relation, threshold)
        return Selected(number, columns, keys, above, answer["tested"], publication=told)

    parts = len(reads) if query.keys is None else query.reach(neighbor_relation)
    return thresholds.in_order(call, spine, query, threshold, law, present, reads=reads, parts=parts, at_once=len(keys))


# The best few of many candidates, paid by what is published, however many candidates there are.


@call("top", subject="selection", publishes=True, by_hits=True)
class TopK(Call[Ranking]):
    """Publish the best `k` candidates with their noisy scores, best first. Of equal scores the earlier candidate comes
    first.

    Candidates are the groups of a query (a series has its positions), each with noise for `epsilon`, or private
    algorithms that return [score, solution] and bring their own epsilons. `gap` ends the list where the next score is
    more than this below the last one, `above` where it is below a threshold. `until` ends it after the first candidate
    with which what is public then meets a condition. What is public is the list of those so far, each `{"name": ,
    "score": , "solution": }`.

    With `room`, outcomes of algorithms and calls that are not published are withheld as secret state. Each takes that
    many bytes in the ledger. They can be published later by a lower threshold or another condition (`Widen`), charged
    as they are published. One that does not fit has failed.

    Guarantee: each candidate is epsilon-DP on its own (`Extendable`). A hit is charged for each that is published, at
    most as many as neighbours can differ in, whatever the number of candidates ([TCT] Algorithm 3, one-shot; theory
    1.6, 4). Deltas of all algorithms are paid. The largest of their epsilons stands for all.

    Errors: `InvalidParameter` for fewer than k candidates, equal names or a missing epsilon. An algorithm that
    raises or returns no finite score ranks below all others; if it is published all the same it is `failed`. If all
    fail, or `until` raises, which ends the list, `AlgorithmFailed`, charged. A call whose answer is no number is
    refused, and so is `room` for groups of a query, whose values are not held.
    """

    candidates: Candidates
    _: KW_ONLY
    k: Whole
    epsilon: Positive | None = None
    gap: Exact | None = None
    above: Exact | None = None
    until: Condition | None = None
    room: Whole | None = None

    def __post_init__(self) -> None:
        if self.room is None:
            return
        if isinstance(self.candidates, Query):
            raise InvalidParameter("only outcomes of algorithms and calls are withheld: leave room= out")
        check_room(self.room, len(compute.named(self.candidates)))

    @classmethod
    def widened(cls, widen: Widen, original: Json, spine: Spine) -> Plan[Selected]:
        return reselection(widen, original, "a list of the best")

    @classmethod
    def recorded(cls, body: Json) -> Self:
        # `until` decides only how many values are published, so an answer is presented without it.
        return super().recorded(
            {name: said for name, said in body.items() if name != "until"} | {"candidates": body.get("query")}
        )

    def plan(self, spine: Spine) -> Plan[Ranking]:
        if isinstance(self.candidates, Query):
            query = self._keyed(self.candidates)
            noise = plan.laplace_for_each(query, spine.rows.neighbor_relation, self.epsilon or 0)
            return top_keys(self, spine, query, noise)
        if self.epsilon is not None:
            raise InvalidParameter("algorithms bring their own epsilon: leave epsilon= out")
        algorithms = compute.all_private(self.candidates, spine)
        check_most(self.rule.most, len(algorithms), "candidates")
        return self._of_algorithms(algorithms)

    def _of_algorithms(self, algorithms: Sequence[Algorithm]) -> Plan[Ranking]:
        """The plan for algorithms: a hit for each that is published, and all deltas."""
        names = names_of(algorithms)

        def run(outcome_of: Callable[[int], Scored], most: int | None) -> Result:
            outcomes = [outcome_of(position) for position in range(len(names))]
            if self.room is not None:
                outcomes = [fitting(outcome, self.room) for outcome in outcomes]
            ranked = self.rule.choose([None if outcome is None else outcome[0] for outcome in outcomes])
            kept, failed = self.ended([Chosen(names[place], *(outcomes[place] or (None,))) for place in ranked])
            found = published({position: outcomes[position] for position in ranked[:kept]}, tests=len(names))
            told = replace(found, answer=found.answer | failed)
            if self.room is None:
                return told
            losers = set(range(len(names))) - set(ranked[:kept])
            held = {place: outcome for place in sorted(losers) if (outcome := outcomes[place]) is not None}
            return replace(told, secret=stored(held, self.room, len(names)))

        def present(answer: Json, number: int) -> Ranking:
            _check_ended(answer)
            best = chosen_of(names, answer)
            if best and best[0].failed:
                raise AlgorithmFailed("every candidate raised, or returned no [score, solution]; charged")
            return Ranking(number, ("name",), tuple((chosen.name,) for chosen in best), best)

        cost = PerHit(len(names), hits=min(self.k, len(names)))
        told = self.told() | compute.renamed(self.candidates)
        return side_by_side(self, algorithms, told, Extendable, run, present, cost)

    def _keyed(self, query: Query) -> Query:
        if query.keys is None:
            raise InvalidQuery('top needs public keys, such as count().by("clinic", ["a", "b"])')
        if self.epsilon is None:
            raise InvalidParameter("say how noisy each group may be, such as epsilon=0.02")
        check_most(self.rule.most, len(query.keys), "keys")
        return query

    @property
    def rule(self) -> OneShotTopK:
        """The rule, in the candidates' own units; `InvalidParameter` for a negative gap."""
        return OneShotTopK(self.k, self.gap, self.above)

    def told(self) -> Json:
        """The rule as ledgers store it."""
        until = None if self.until is None else self.until.name
        rule = {"gap": self.gap, "above": self.above, "until": until}
        held = {} if self.room is None else {"room": self.room}
        return {"k": self.k} | {name: str(said) for name, said in rule.items() if said is not None} | held

    def ended(self, best: Sequence[Chosen]) -> tuple[int, Json]:
        """The number of the best that are published, a function of what is public, and whether `until` failed."""
        for place in range(1, len(best) + 1) if self.until is not None else ():
            try:
                if self.until is not None and self.until([chosen._asdict() for chosen in best[:place]]):
                    return place, {}
            except AlgorithmFailed:
                return place, {"failed": True}
        return len(best), {}


def top_keys(call: TopK, spine: Spine, query: Query, noise: Additive) -> Plan[Ranking]:
    """The best groups of a query, ranked by their values with this noise."""
    neighbor_relation = spine.rows.neighbor_relation
    keys, reach = tuple(query.keys or ()), query.reach(neighbor_relation)
    gap, above = (None if bar is None else Fraction(bar) / query.grid for bar in (call.gap, call.above))
    mechanism = OneShotTopK(call.k, gap, above)

    def best(positions: Sequence[int], noisy: Sequence[int]) -> tuple[Chosen, ...]:
        scores = [natural(steps, query.grid) for steps in noisy]
        return tuple(Chosen(keys[place], score) for place, score in zip(positions, scores, strict=True))

    def told() -> LargestOf:
        return published_best(noise, query, neighbor_relation, candidates=len(keys), most=call.k)

    def run(data: Data) -> Result:
        found = mechanism.step(data.integers(), noise, data.source)
        kept, failed = call.ended(best(found.positions, found.noisy))
        answer = {"positions": found.positions[:kept], "noisy": found.noisy[:kept]} | failed
        return Result(answer, hits=kept, tests=len(keys))

    def present(answer: Json, number: int) -> Ranking:
        _check_ended(answer)
        positions = answer["positions"]
        found = best(positions, answer["noisy"])
        return Ranking(number, query.columns, tuple(keys[position] for position in positions), found, told=told())

    def forecast() -> Forecast:
        ends = replace(told(), floor=None, ceiling=None).interval(0)
        below, above = (plain(float(abs(end or 0))) for end in (ends.low, ends.high))
        says = f"with {CONFIDENT}, all published values together are at most {below} too high and {above} too low"
        bar = error_bar((noise, query.grid))
        wrong = None if call.above is None else noise.wrong_call  # without a bar nothing is on a wrong side
        return Forecast(bar, decides=True, step=query.grid, wrong=wrong, interval=says)

    body = {"query": query.body()} | call.told() | {"epsilon": str(call.epsilon), "parallel": reach}
    event, cost = Extendable(call.epsilon or 0), PerHit(reach, hits=min(call.k, reach))
    return call.planned(spine, event, run, present, reading(query), cost, forecast, body=body)


def _check_ended(answer: Json) -> None:
    if "failed" in answer:
        raise AlgorithmFailed("the condition that ends the list raised, or is neither true nor false; charged")


def check_most(k: int, candidates: int, words: str) -> None:
    """Refuse a `k` above the number of candidates."""
    if k > candidates:
        raise InvalidParameter(f"k is {k}, but there are only {candidates} {words}")


# Greedy choice: candidates whose scores depend on what was chosen before ([TCT] section 2.2, coverage).


@call(
    "greedy",
    subject="selection",
    by_hits=True,
    meanings={
        "mechanism": "turn; best for algorithms of your own (in Python).",
    },
)
class Greedy(sharp.Valued[Hits]):
    """Choose candidates one after another, each by what it adds to those chosen before.

    Candidates are conditions, or the groups of a count without `max_groups_per_unit`. One is chosen if at least `above`
    units have a row in it and none in those chosen before, up to noise (a `Coverage`). Or they are private algorithms
    that return [score, solution] and take a parameter `chosen`: the list of [name, solution] of all that were chosen
    before, which is public (a `Gathered`). `mechanism="turn"` asks each once, in the order they are listed, and chooses
    it if its score is `above` or more. `mechanism="best"` runs all algorithms that are left in every round, and chooses
    the best of them, until none is `above`. It stops after `k` were chosen or when the budget runs out.

    Guarantee: in turn each candidate is one conditional release, whose question depends on what was published before.
    It is a `ReleaseIf` of a count, with the tests of that call, or a `PublishIf` of an algorithm. A round of the best
    is one-shot top-1 (`TopK`). So each chosen candidate is charged as one hit of its call, and all others are free. The
    algorithms' deltas are paid whenever they are run. Each step is a transaction of its own: other calls may come in
    between, and by turn `Widen` publishes an outcome that was withheld. A repeated `request` continues where it was
    interrupted. A quote is that of the first step.

    Errors: `InvalidParameter` for equal names, a parameter `chosen` of a candidate's own, algorithms with an epsilon in
    addition to their own, and counts by the best. By turn `AlgorithmFailed`, charged, for a candidate that raises. What
    returns no [score, solution] is not chosen.

    >>> def adds(rows, source, chosen):
    ...     return [10 - 4 * len(chosen), "solution"]
    >>> Greedy([Algorithm("first", adds, epsilon="0.02")], above=5).mechanism
    'turn'
    """

    candidates: Candidates
    _: KW_ONLY
    k: Whole | None = None
    mechanism: Literal["turn", "best"] = "turn"

    def __post_init__(self) -> None:
        if _counted(self.candidates):
            super().__post_init__()
            if self.mechanism == "best":
                raise InvalidParameter("candidates that are counted are chosen in turn: leave mechanism= out")
        else:
            brought = compute.named(self.candidates)
            check_own_epsilon(self)
            if any("chosen" in each.parameters for each in brought.values() if isinstance(each, Algorithm)):
                raise InvalidParameter("chosen is the parameter that gives candidates the choices before them")
        check_most(self._most, len(self._all), "candidates")

    @property
    def query(self) -> Count:
        """The count of the first candidate, of candidates that are counted."""
        return Count(where=self._all[0][1])

    def plan(self, spine: Spine) -> Plan[Any]:
        return self._step(self._all, [], []).plan(spine)

    def perform(self, spine: Spine, request: str | None = None) -> Hits:
        best, left = self.mechanism == "best", list(self._all)
        found: list[Chosen] = []
        taken: list[Any] = []
        calls: list[int] = []

        def steps() -> Iterator[Plan[Any]]:
            while left and len(found) < self._most:
                yield self._step(left, found, taken).plan(spine)

        for answer in one_after_another(spine, steps(), request):
            calls.append(answer.call)
            place, chosen = self._told(answer, left)
            if best and chosen is None:
                break
            asked = left.pop(place)
            if chosen is not None:
                found.append(chosen)
                taken.append(asked)
        return handed_out(self._answer(spine, found, calls), spine)

    @cached_property
    def _all(self) -> Sequence[Any]:
        """The candidates, algorithms or conditions, with their names."""
        if _counted(self.candidates):
            counted: Any = self.candidates
            return conditions_of(counted)
        return list(compute.named(self.candidates).items())

    @property
    def _most(self) -> int:
        return len(self._all) if self.k is None else self.k

    def _step(self, left: Sequence[Any], found: Sequence[Chosen], taken: Sequence[Any]) -> Call[Any]:
        """The call of the next step: on the first candidate that is left, or by the best on all of them."""
        if _counted(self.candidates):
            query = Count(where=left[0][1], without=any_of([condition for _, condition in taken]))
            return thresholds.ReleaseIf(query, above=self.above, **self.ways)
        public = [[chosen.name, chosen.solution] for chosen in found]
        if self.mechanism == "best":
            knowing = {name: _knowing(brought, public) for name, brought in left}
            return TopK(knowing, k=1, above=self.above)
        brought = left[0][1]
        reaches = partial(_reaches, Fraction(self.above), alone=isinstance(brought, Call))
        return compute.PublishIf(_knowing(brought, public), when=When(f"score >= {Fraction(self.above)}", reaches))

    def _told(self, answer: Any, left: Sequence[Any]) -> tuple[int, Chosen | None]:
        """The place of the candidate that was tested or came out best, and its result if it was chosen, else None."""
        if self.mechanism == "best":
            chosen = answer.best[0] if answer.best else None
            return (0 if chosen is None else [name for name, _ in left].index(chosen.name)), chosen
        if answer.value is None:
            return 0, None
        name, brought = left[0]
        return 0, Chosen(name, *(answer.value if isinstance(brought, Algorithm) else (answer.value,)))

    def _answer(self, spine: Spine, found: Sequence[Chosen], calls: Sequence[int]) -> Hits:
        chosen, made = tuple(found), tuple(calls)
        if not _counted(self.candidates):
            tested = len(self._all) if self.mechanism == "best" else len(made)
            return Gathered(made[-1], ("name",), tuple((name,) for name, _ in self._all), chosen, tested, made)
        columns = self.candidates.columns if isinstance(self.candidates, Count) else ("condition",)
        names = tuple(name for name, _ in self._all)
        keys = tuple(name if isinstance(name, tuple) else (name,) for name in names)
        first, threshold = self.query, steps_at_least(self.above, self.query.grid)
        told = self.law(spine, first).published(first, spine.rows.neighbor_relation, threshold)
        return Coverage(made[-1], columns, keys, chosen, made, told, names, self._most)


def _knowing(brought: Algorithm | Call[Any], public: list[Any]) -> Algorithm | Call[Any]:
    """An algorithm with the earlier choices as its parameter `chosen`; a call stays as it is."""
    if isinstance(brought, Call):
        return brought
    parameters: Mapping[str, Any] = {**brought.parameters, "chosen": public}
    return replace(brought, parameters=parameters)


def check_own_epsilon(call: sharp.Valued[Any]) -> None:
    """Refuse options of accuracy where candidates are algorithms."""
    if call.ways:
        raise InvalidParameter("algorithms bring their own epsilon: leave out hits=, price=, within= and epsilon=")


def _reaches(bar: Fraction, outcome: Any, *, alone: bool) -> bool:
    pair = scored_of(outcome, alone=alone)
    return pair is not None and bool(pair[0] >= bar)


# All candidates that reach a threshold, paid by what is published.


@call(
    "select",
    subject="selection",
    publishes=True,
    by_hits=True,
    meanings={
        "room": "Withhold outcomes of your own algorithms (in Python), in this many bytes each.",
    },
)
class Select(sharp.Valued[Selected]):
    """Publish all candidates that reach a threshold, in the order of the list, with their scores. Candidates are groups
    of a query, conditions or private algorithms.

    Guarantee: an algorithm, whose outcomes are [score, solution], is one (epsilon, delta)-DP call with the NotPrior
    target "published" ([TCT] Lemma 2.4). One that fails reaches no threshold, and the deltas of all are paid. A counted
    candidate is tested as a group by `ReleaseIf`. By `hits`, `price` or `within` each is a `SharpTest` with a fresh
    value, and by `epsilon` an epsilon-DP call. Many against too low a threshold are refused alike (see `Threshold`).
    One unit may meet all conditions, and be in as many groups as the query says. When the budget cannot pay for that
    many hits it halts at the last one that fits; later candidates are `untested`.

    With `room`, outcomes of algorithms that were not published are withheld as secret state. Each takes that many bytes
    in the ledger. They can be published by another condition (`Widen`); one that does not fit has failed.
    """

    candidates: Candidates
    _: KW_ONLY
    room: Whole | None = None

    def __post_init__(self) -> None:
        if _counted(self.candidates):
            super().__post_init__()
            if self.room is not None:
                raise InvalidParameter("only outcomes of algorithms are withheld: leave room= out")
            return
        check_own_epsilon(self)
        if self.room is not None:
            check_room(self.room, len(compute.named(self.candidates)))

    @property
    def query(self) -> Query:
        """The grouped query, or of conditions the count of the first."""
        asked: Any = self.candidates
        return thresholds.keyed(asked) if isinstance(asked, Query) else Count(where=conditions_of(asked)[0][1])

    def plan(self, spine: Spine) -> Plan[Selected]:
        if _counted(self.candidates):
            return selected(self, spine, self.law(spine, self.query))
        return self._of_algorithms(compute.all_private(self.candidates, spine))

    def _of_algorithms(self, algorithms: Sequence[Algorithm]) -> Plan[Selected]:
        names, room, bar = names_of(algorithms), self.room, Fraction(self.above)

        def run(outcome_of: Callable[[int], Scored], most: int | None) -> Result:
            found: dict[int, Scored] = {}
            held: Pairs = {}
            tested = 0
            while tested < len(names) and len(found) != most:
                outcome = outcome_of(tested)
                if outcome is not None and outcome[0] >= bar:
                    found[tested] = outcome
                elif room is not None and (kept := fitting(outcome, room)) is not None:
                    held[tested] = kept
                tested += 1
            told = published(found, tests=tested)
            return told if room is None else replace(told, secret=stored(held, room, len(names)))

        def event(epsilon: Fraction, delta: Fraction) -> Event:
            return Targeted(epsilon, None, delta)

        told = {"above": str(self.above)} | ({} if room is None else {"room": room})
        told |= compute.renamed(self.candidates)
        return side_by_side(
            self, algorithms, told, event, run, partial(_selected_of, names), PerHit(len(names), halts=True)
        )

    @classmethod
    def widened(cls, widen: Widen, original: Json, spine: Spine) -> Plan[Selected]:
        return reselection(widen, original, "a selection")


def _counted(candidates: Any) -> bool:
    """Whether candidates are counted: groups or conditions, not algorithms."""
    counted = isinstance(candidates, (list, tuple)) and any(isinstance(each, (str, Predicate)) for each in candidates)
    return counted or isinstance(candidates, Query)
