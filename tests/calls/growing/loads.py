"""Half-hourly loads of homes for years, made up and the same for the same seed, in weekly batches of days."""

from datetime import date, timedelta

import numpy as np
import pyarrow as pa

HALF_HOURS, DAYS = 48, 7
MONDAY = date(2024, 1, 1)


def weeks(homes, number, seed):
    """For each week the loads in kWh: home, day, half-hour. Homes differ, winters are cold, evenings are high."""
    drawn = np.random.default_rng(seed)
    sizes = drawn.lognormal(-1.6, 0.5, (homes, 1, 1))
    hours = np.arange(HALF_HOURS) / 2
    evening = 0.6 + np.exp(-(((hours - 19) / 2.5) ** 2)) + 0.5 * np.exp(-(((hours - 8) / 1.5) ** 2))
    for week in range(number):
        winter = 1 + 0.8 * np.cos(2 * np.pi * week / 52) + drawn.normal(0, 0.05)
        yield sizes * winter * evening * drawn.lognormal(0, 0.35, (homes, DAYS, HALF_HOURS))


def batch(loads, week):
    """The rows of a week: of each home and day what it used, and the most in half an hour."""
    homes = len(loads)
    days = [MONDAY + timedelta(days=DAYS * week + day) for day in range(DAYS)]
    return pa.table(
        {
            "home": np.repeat(np.arange(homes), DAYS),
            "day": pa.array(days * homes, pa.date32()),
            "kwh": loads.sum(axis=2).ravel(),
            "peak": loads.max(axis=2).ravel(),
        }
    )


def sunday(week):
    """The last day of a week."""
    return MONDAY + timedelta(days=DAYS * week + DAYS - 1)
