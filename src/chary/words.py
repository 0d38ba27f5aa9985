"""Words for people: shares of the budget, what was charged and what is left, without what accounting is made of."""

from fractions import Fraction
from typing import Final

# What the accounting is made of. People see prices instead; `to_dict` and `--json` have all of it.
ACCOUNTANTS: Final = frozenset(
    {"alpha", "delta", "epsilon", "epsilon_per_call", "lambda", "log_moment", "order", "rho", "spent"}
)

# Of a value with noise that is outside of its interval: moved to what is possible, values would be biased.
RAW: Final = "a value outside of its interval is the raw noisy one, where the truth cannot be"

# What is said once the main account of a dataset has ended (`amounts.Accounts`).
MISSES_ENDED: Final = "free misses have ended"
EVERY_CHARGED: Final = "every call is charged its epsilon, hit or miss"


def percent(share: Fraction | float) -> str:
    """A share for people: three digits, and more where fewer would make something of it nothing or all.

    >>> percent(0.02714), percent(1e-7), percent(0.999964), percent(1)
    ('2.71 %', '1e-05 %', '99.996 %', '100 %')
    """
    told = 100 * float(share)
    digits = next((digits for digits in range(3, 17) if told == 100 or float(f"{told:.{digits}g}") != 100), 17)
    return f"{told:.{digits}g} %"


def counted(number: int, one: str, many: str) -> str:
    """So many of something, for people.

    >>> counted(1, "call", "calls"), counted(20, "call", "calls")
    ('1 call', '20 calls')
    """
    return f"{number} {one if number == 1 else many}"


def priced(charged: float, left: float) -> str:
    """What was charged and what is left, as shares of the budget, for people.

    >>> priced(0.027, 0.613), priced(0, 0.613)
    ('charged 2.7 %, 61.3 % left', 'free, 61.3 % left')
    """
    return f"{f'charged {percent(charged)}' if charged else 'free'}, {percent(left)} left"
