"""A learner whose guarantee and whose failures are plain to see."""

import math

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

SECRET = 987654321


class Majority(ClassifierMixin, BaseEstimator):
    """The most frequent of two labels, or with `flip` the other one: what randomized response chooses between."""

    columns = ()

    def __init__(self, epsilon=None, neighbors="add_remove", unsafe_noise=None, flip=False, mode="fine"):
        self.epsilon, self.neighbors, self.unsafe_noise = epsilon, neighbors, unsafe_noise
        self.flip, self.mode = flip, mode

    def check(self):
        pass

    def fit(self, rows, labels):
        if self.mode == "raises":
            raise ValueError(f"cannot bear {SECRET}")
        ones = sum(labels.to_pylist())
        self.choice_ = int(2 * ones > len(labels)) ^ int(self.flip)
        return self

    def predict(self, rows):
        return np.full(2 if self.mode == "wrong shape" else len(rows), self.choice_)

    def state(self):
        return {"choice": math.nan if self.mode == "nan" else self.choice_}

    def restore(self, state):
        self.choice_ = state["choice"]
        return self

    def body(self):
        return {"learner": "majority", "mode": self.mode, "flip": self.flip}
