"""Estimators and rows for them, for the tests of what they learn and of what they refuse."""

import numpy as np

from chary.learning import PrivateLogisticRegression, PrivateQuantileRegressor, PrivateRidge, PrivateSVC
from chary.noise import Seeded

ENDLESS = 10**12


def rows_of(size=600, seed=0):
    generator = np.random.default_rng(seed)
    rows = generator.uniform(-1, 1, (size, 3))
    score = rows @ [1.0, -2.0, 0.5] + 0.3 + generator.normal(0, 0.5, size)
    return rows, np.where(score > 0, "yes", "no"), np.clip(score, -1, 1)


def logistic(**given):
    usual = {"epsilon": 1, "lam": "0.01", "radius": 2, "classes": ["no", "yes"], "unsafe_noise": Seeded(1)}
    return PrivateLogisticRegression(**usual | given)


def svc(**given):
    usual = {"epsilon": 1, "lam": "0.01", "radius": 2, "classes": ["no", "yes"], "unsafe_noise": Seeded(1)}
    return PrivateSVC(**usual | given)


def ridge(**given):
    usual = {"epsilon": 1, "lam": "0.01", "radius": 2, "label_bound": 1, "unsafe_noise": Seeded(1)}
    return PrivateRidge(**usual | given)


def median(**given):
    usual = {"epsilon": 1, "lam": "0.01", "radius": 2, "label_bound": 1, "unsafe_noise": Seeded(1)}
    return PrivateQuantileRegressor(**usual | {"level": "0.5", "smoothing": "0.1"} | given)


ALL = [logistic, svc, ridge, median]


def labels_for(make):
    return rows_of()[2 if make in (ridge, median) else 1]
