"""Sparse vectors as contenders of an advice, in every form, each with the largest epsilon that fits."""

import math
from fractions import Fraction
from typing import Any

from chary.accounting import laplace_error_up
from chary.advise.advice import Option
from chary.advise.affording import Room, Wanted, written
from chary.amounts import DELTA_STEPS
from chary.calls.sparse_vector import Form, OpenSparse
from chary.core.charges import spending
from chary.errors import InvalidParameter, NoPrice
from chary.numbers import exact


def published_sparse(wanted: Wanted, room: Room) -> Option:
    """The published sparse vector, AboveThreshold for one hit."""
    return _sparse("sparse vector, published", wanted, room, form="published")


def approximate_sparse(wanted: Wanted, room: Room) -> Option:
    """The published sparse vector with as much delta as is left."""
    delta = Fraction(room.left.delta, DELTA_STEPS)
    if not delta:
        raise NoPrice("no delta is left that was set aside for such events (approximate_delta=)")
    return _sparse("sparse vector, published, delta", wanted, room, form="published", delta=delta)


def tuned_sparse(wanted: Wanted, room: Room) -> Option:
    """The tuned sparse vector for questions of any kind."""
    return _sparse("sparse vector, tuned", wanted, room, monotone=False)


def monotone_sparse(wanted: Wanted, room: Room) -> Option:
    """The tuned sparse vector for questions which all move in the same direction."""
    _check_monotone(wanted)
    return _sparse("sparse vector, tuned, monotone", wanted, room, monotone=True)


def one_sided_sparse(wanted: Wanted, room: Room) -> Option:
    """The sparse vector with one-sided noise for questions of any kind."""
    return _sparse("sparse vector, one-sided", wanted, room, form="one-sided", monotone=False)


def monotone_one_sided_sparse(wanted: Wanted, room: Room) -> Option:
    """The sparse vector with one-sided noise for questions which all move in the same direction."""
    _check_monotone(wanted)
    return _sparse("sparse vector, one-sided, monotone", wanted, room, form="one-sided", monotone=True)


def _check_monotone(wanted: Wanted) -> None:
    if not wanted.adds:
        raise InvalidParameter(f"under {wanted.neighbouring.relation} no questions are monotone")
    if wanted.monotone is False:
        raise InvalidParameter("the questions are not monotone, as you say")


def _sparse(
    name: str, wanted: Wanted, room: Room, *, form: Form = "tuned", delta: Fraction = Fraction(0), **terms: bool
) -> Option:
    def opened(epsilon: Fraction) -> OpenSparse:
        sizes: dict[str, Any] = {"sensitivity": wanted.sensitivity, "grid": wanted.grid, "values": wanted.values}
        sizes |= {"tests": wanted.tests} if form == "one-sided" else {}
        return OpenSparse(wanted.neighbouring, 0, wanted.hits, epsilon, delta, form, **sizes, **terms)

    size = room.largest(lambda epsilon: opened(epsilon).event, lambda price: price.hit, room.filter.budget.exact[0])
    made = opened(size)
    machine = made.mechanism
    answer = None if machine.answers is None else machine.answers.scale
    value = None if answer is None else laplace_error_up(answer, tests=wanted.hits, confidence=wanted.confidence)
    return Option(
        name,
        wanted.units(machine.error_up(wanted.tests, wanted.confidence)),
        wanted.units(machine.tests_alone.error_up(wanted.tests, wanted.confidence)),
        None if value is None else wanted.units(value),
        spending(room.filter, made.price(room.filter).hit).share,
        size,
        wanted.units(machine.deviation),
        None if answer is None else wanted.units(math.sqrt(2) * float(answer)),
        code=_opening_call(wanted, made, form, terms),
        opening=room.opening,
        note="charged once, whole; ask the run it gives: run.ask(query), key after key where there are keys",
    )


def _opening_call(wanted: Wanted, made: OpenSparse, form: Form, terms: dict[str, bool]) -> str:
    given = [f"above={wanted.bar}", f"hits={wanted.hits}", f"epsilon={written(Fraction(made.epsilon))}"]
    given += [f"delta={written(Fraction(made.delta))}"] if made.delta else []
    given += [f"tests={made.tests}"] if form == "one-sided" else [f'form="{form}"']
    given += [] if form == "published" else [f"monotone={terms['monotone']}"]
    given += ["values=True"] if wanted.values else []
    given += _unlike(wanted, "sensitivity") + _unlike(wanted, "grid")
    return f"session.start(SparseVector({', '.join(given)}))"


def _unlike(wanted: Wanted, name: str) -> list[str]:
    """The argument where it is not 1."""
    number = exact(getattr(wanted, name), name)
    return [] if number == 1 else [f"{name}={written(number)}"]
