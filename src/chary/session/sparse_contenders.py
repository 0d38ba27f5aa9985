"""Sparse vectors as contenders of an advice: published and tuned, each with the largest epsilon that fits."""

import math
from fractions import Fraction
from typing import Any

from chary.accounting import SparseNoise, error_up, laplace_error_up
from chary.accounting.sparse_vector import Form
from chary.amounts import DELTA_STEPS
from chary.errors import InvalidParameter, NoPrice
from chary.numbers import exact
from chary.session.advice import Option
from chary.session.affording import Room, Wanted, written
from chary.session.reporting import spending
from chary.session.sparse import OpenSparse


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
    if not wanted.adds:
        raise InvalidParameter(f"under {wanted.neighbouring.relation} no questions are monotone")
    if wanted.monotone is False:
        raise InvalidParameter("the questions are not monotone, as you say")
    return _sparse("sparse vector, tuned, monotone", wanted, room, monotone=True)


def _sparse(
    name: str, wanted: Wanted, room: Room, *, form: Form = "tuned", delta: Fraction = Fraction(0), **terms: bool
) -> Option:
    def opened(epsilon: Fraction) -> OpenSparse:
        sizes: dict[str, Any] = {"sensitivity": wanted.sensitivity, "grid": wanted.grid, "values": wanted.values}
        return OpenSparse(wanted.neighbouring, 0, wanted.hits, epsilon, delta, form, **sizes, **terms)

    size = room.largest(lambda epsilon: opened(epsilon).event, lambda price: price.hit, room.filter.budget.exact[0])
    made = opened(size)
    noise = made.mechanism.sizes.scaled(wanted.steps)
    tests = SparseNoise(noise.hits, noise.threshold, noise.test, None, noise.redrawn)
    answer = noise.answer
    value = None if answer is None else laplace_error_up(answer, tests=wanted.hits, confidence=wanted.confidence)
    return Option(
        name,
        wanted.units(error_up(noise, tests=wanted.tests, confidence=wanted.confidence)),
        wanted.units(error_up(tests, tests=wanted.tests, confidence=wanted.confidence)),
        None if value is None else wanted.units(value),
        spending(room.filter, made.price(room.filter).hit).share,
        size,
        wanted.units(math.sqrt(2) * math.hypot(noise.threshold, noise.test)),
        None if answer is None else wanted.units(math.sqrt(2) * float(answer)),
        code=_opening_call(wanted, made, form, terms),
        opening=room.opening,
        note="charged once, whole; ask it by .test(query), or .watch(query) for a query with keys",
    )


def _opening_call(wanted: Wanted, made: OpenSparse, form: Form, terms: dict[str, bool]) -> str:
    given = [f"above={wanted.bar}", f"hits={wanted.hits}", f"epsilon={written(Fraction(made.epsilon))}"]
    given += [f"delta={written(Fraction(made.delta))}"] if made.delta else []
    given += ['form="published"'] if form == "published" else [f"monotone={terms['monotone']}"]
    given += ["values=True"] if wanted.values else []
    given += _unlike(wanted, "sensitivity") + _unlike(wanted, "grid")
    return f"session.sparse_vector({', '.join(given)})"


def _unlike(wanted: Wanted, name: str) -> list[str]:
    """The argument where it is not 1."""
    number = exact(getattr(wanted, name), name)
    return [] if number == 1 else [f"{name}={written(number)}"]
