"""A black box that changes as a schedule goes on ([GROW] sections 3 and 3.1.1): another algorithm, or other queries."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from chary.accounting.schedules import Law
from chary.calls.schedules import FIRST, BlackBox
from chary.core.plan import Interaction, Json
from chary.data import Neighbouring
from chary.errors import InvalidParameter
from chary.numbers import whole


@dataclass(frozen=True)
class ChangingBox(BlackBox):
    """One black box until a run, and another from that run on: `ChangingBox({0: first, 4: later})`.

    Privacy is that of any schedule: each run has its own share of the budget, whatever it runs with it. Which box
    serves which run is public and fixed at the opening; every one is checked then. `law` holds for all of them: its
    factor, choices and base are the largest of theirs, so the growth that is chosen suits the worst; `state.table()`
    tells the errors of each. Their laws must have the same powers.

    Errors: `InvalidParameter` for no box for the first run, run 0, for what is no black box, and for other powers.

    >>> from chary import count
    >>> from chary.growing.boxes import CountsBox
    >>> box = ChangingBox({0: CountsBox(count("age >= 65")), 4: CountsBox(count().by("ward", ["a", "b"]))})
    >>> box.changes, box.of_run(3).law.choices, box.of_run(4).law.choices, box.law.choices
    ((0, 4), Fraction(2, 1), Fraction(4, 1), Fraction(4, 1))
    """

    boxes: tuple[tuple[int, BlackBox], ...]

    def __init__(self, boxes: Mapping[int, BlackBox]) -> None:
        given = dict(boxes) if isinstance(boxes, Mapping) else {}
        runs = sorted(whole(run, "a run", least=0) for run in given)
        if runs[:1] != [FIRST]:
            raise InvalidParameter("say which black box serves the first run: ChangingBox({0: box, 4: another})")
        if not all(isinstance(box, BlackBox) and box.changes == (FIRST,) for box in given.values()):
            raise InvalidParameter("change between black boxes, such as chary.growing.CountsBox(count())")
        object.__setattr__(self, "boxes", tuple((run, given[run]) for run in runs))
        laws = [box.law for _, box in self.boxes]
        if len({(law.power, law.log_power, law.size_log, law.fall) for law in laws}) > 1:
            raise InvalidParameter(
                "the laws of these black boxes have other powers: one schedule cannot serve all of them"
            )

    @property
    def changes(self) -> tuple[int, ...]:
        return tuple(run for run, _ in self.boxes)

    def of_run(self, run: int) -> BlackBox:
        return next(box for first, box in reversed(self.boxes) if first <= run)

    @property
    def law(self) -> Law:
        laws = [box.law for _, box in self.boxes]
        worst = {name: max(Fraction(getattr(law, name)) for law in laws) for name in ("factor", "choices", "base")}
        return replace(laws[0], **worst)

    def interaction(self, epsilon: Fraction, neighbouring: Neighbouring) -> Interaction:
        return self.of_run(FIRST).interaction(epsilon, neighbouring)

    def body(self, neighbouring: Neighbouring) -> Json:
        return {"changing": [[run, box.body(neighbouring)] for run, box in self.boxes]}
