"""Local reports: how many people an accuracy takes by every form, the error that is measured, and the time it takes."""

import sys
from fractions import Fraction

import numpy as np

from chary.accounting.accuracy import local_channels, people_needed
from chary.mechanisms import KRandomizedResponse, LocalHashing, UnaryEncoding
from measuring import best, duration, machine, show

FORMS = {
    "category": KRandomizedResponse,
    "symmetric": lambda values, epsilon: UnaryEncoding(values, epsilon, optimised=False),
    "optimised": UnaryEncoding,
    "hashed": LocalHashing,
}


def main() -> None:
    """Print two tables."""
    print(machine())
    asked = {"within": Fraction(1, 100), "beta": Fraction(1, 20)}
    lines = []
    for values, epsilon, share in [
        (2, 1, 1),
        (10, 1, 1),
        (10, 1, "1/10"),
        (100, 1, "1/10"),
        (100, 4, "1/10"),
        (10, 4, 1),
    ]:
        forms = local_channels(values, epsilon)
        needed = [people_needed(forms[name], values=values, share=Fraction(share), **asked) for name in FORMS]
        lines.append((f"{values} values, epsilon {epsilon}, shares to {share}", *(f"{each:,}" for each in needed)))
    show("people for intervals of 0.01 to either side, all values at once, 95 %", ("", *FORMS), lines)
    lines = [measured(name, 20, epsilon) for epsilon in (1, 3) for name in FORMS]
    show("100,000 people, 20 values", ("form", "root mean square error", "by formula", "randomizing all"), lines)


def measured(name: str, values: int, epsilon: int) -> tuple[str, ...]:
    """The error of all shares, and the time of one round."""
    people, draw = 100_000, np.random.default_rng(1)
    held = draw.integers(0, values, people)
    survey, squares = FORMS[name](range(values), epsilon), 0.0
    shares = np.bincount(held, minlength=values) / people
    reports = survey.reports(held.tolist())
    for _ in range(4):
        found = survey.counts(survey.reports(held.tolist()))
        squares += float(
            np.mean([(survey.channel.share(int(c), people) - s) ** 2 for c, s in zip(found, shares, strict=True)])
        )
    formula = (survey.channel.squared_error(values) / values / people) ** 0.5
    took = best(lambda: survey.reports(held.tolist()), rounds=2)
    assert len(reports) == people
    return f"{name}, epsilon {epsilon}", f"{(squares / 4) ** 0.5:.5f}", f"{formula:.5f}", duration(took)


if __name__ == "__main__":
    sys.exit(main())
