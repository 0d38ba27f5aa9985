"""The worst case of a sketch: one register and the one element that falls into it, by exact laws."""

from collections import defaultdict
from itertools import count
from typing import Any, Final

import numpy as np
import pyarrow as pa

from chary.audit.auditing.enumeration import Enumeration, Law
from chary.audit.auditing.transcripts import Begun, Chained, Step
from chary.audit.worst_cases.worst_case import Tables, WorstCase
from chary.calls import Sketch
from chary.calls.sketch import Line
from chary.mechanisms.sketches import KEY_DIGITS, place_one, words
from chary.noise.source import Words

REGISTERS: Final = 16
# With 15 phantoms and a least value of 4 a register tells ln(16/15) of an element, nearly all of this; with 7 and 3,
# of twice this, ln(8/7).
EPSILON: Final = 0.0668
ELEMENT: Final = 1
# Registers from here on are one outcome: a value is there with chance 1/128.
HIGHEST: Final = 8
ONE_OR_NONE = Tables({"unit": [ELEMENT]}, {"unit": pa.array([], pa.int64())})


class OneRegister:
    """A source of words for a sketch of this key, of which only what is drawn for one of its registers comes from
    another source; all other registers draw their least value."""

    def __init__(self, followed: Any, key: Words, register: int) -> None:
        self._followed, self._key, self._register = followed, key, register

    def words(self, count: int, bits: int) -> Words:
        """For all registers, for the key, for the rest of one of the registers, or for a name."""
        if count == 1:
            drawn: Words = self._followed.words(1, bits)
            return drawn
        if count == len(self._key):
            return self._key
        given = np.zeros(count, dtype=np.uint64)
        if count == REGISTERS:
            given[self._register] = self._followed.words(1, bits)[0]
        return given


def register_law(begun: Begun, step: Step) -> Law:
    """The law of the register of the element once a question was asked, all registers from `HIGHEST` on being one.

    Its value is geometric, since the hash is a random function: each value has a key under which the element has it.
    All registers are independent, and the element falls into any. So all of them having one value is as much likelier
    or rarer for the element as one register having it: what is found here the registers show together, which may be
    published all (docs/sketches.md), and of their least value it is whether anything is published at a low bar.
    """
    law: Law = defaultdict(float)
    for value in range(1, HIGHEST + 1):
        key, register = _key_of(value)

        def run(source: Any, key: Words = key, register: int = register) -> int:
            one = OneRegister(source, key, register)
            ran = step.run(one, begun.opening.run(one, None).secret)
            line = Line.load(ran.secrets[begun.number] or b"")
            return min(line.sketch.registers[register], HIGHEST)

        for outcome, chance in Enumeration(run).law().items():
            law[outcome] += chance * 2.0 ** -min(value, HIGHEST - 1)
    return dict(law)


def _key_of(value: int) -> tuple[Words, int]:
    """The words of the first key under which the element has this value, and its register."""
    keys = (np.array([number] + [0] * (KEY_DIGITS // 16 - 1), dtype=np.uint64) for number in count())
    placed = ((key, place_one(int(words(key.tobytes().hex(), [ELEMENT])[0]), REGISTERS)) for key in keys)
    return next((key, register) for key, (register, found) in placed if found == value)


def sketched(k: int) -> Chained:
    """An estimate of nobody or of one unit, whatever it is."""
    opening = Sketch(epsilon=EPSILON * k, registers=REGISTERS)
    return Chained(opening, (lambda run: run.question(),))


CASES = [WorstCase("sketch_release_if", sketched, ONE_OR_NONE.opened, law=register_law)]
