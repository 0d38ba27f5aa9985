"""Trainings to schedule, rows for them, and losses, for the tests of models that are trained again as rows arrive."""

from fractions import Fraction
from functools import cache

import numpy as np
import polars as pl
import pytest

from chary.learning import Categorical, PrivateLogisticRegression, Span, TrainingBox
from chary.learning.losses import Hinge, Logistic, Quantile, SmoothedHinge, SquaredError, SquaredHinge

ALPHA = 1e-6
WRONG = (2 / 3, 3 / 2)
FEATURES = [Span("age", 0, 100), Categorical("sex", ["f", "m"])]
BETAS = ("0.5", "0.05", "1e-6", "1e-9", "1e-30")
EVERY = {"rho": "0.015", "beta": "0.05", "exponent": "0.1"}
KINKED = [Hinge(Fraction(1, 4)), Quantile(Fraction(1, 2), Fraction(1), Fraction(1, 4))]
LOSSES = [Logistic(), SmoothedHinge(), SquaredHinge(), SquaredError(Fraction(1)), *KINKED]
of_each_loss = pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)


@cache
def everybody():
    generator = np.random.default_rng(5)
    age, sex, noise = generator.integers(0, 100, 10**4), generator.integers(0, 2, 10**4), generator.normal(0, 10, 10**4)
    ill = np.where(age + 20 * sex + noise > 60, "yes", "no")
    return pl.DataFrame({"age": age, "sex": np.array(["f", "m"])[sex], "ill": ill, "score": age / 100})


def people(first, last):
    return everybody()[first:last]


def logistic(**given):
    usual = {"lam": "0.01", "radius": 2, "classes": ["no", "yes"], "steps": 20}
    return PrivateLogisticRegression(**usual | given)


def in_a_ball(**given):
    return TrainingBox(logistic(rho=1, lam="1e-4", length=3, **given), FEATURES, "ill")


BOXES = {
    "ball": in_a_ball(),
    "gaussian": TrainingBox(logistic(rho=1, steps=0), FEATURES, "ill"),
    "pure": TrainingBox(logistic(epsilon=1, length=3), FEATURES, "ill"),
}
