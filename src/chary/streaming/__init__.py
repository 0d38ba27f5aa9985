"""Streaming estimators that stay right when the stream depends on their answers."""

from chary.streaming.estimator_copies import ItemFrequency
from chary.streaming.robust import RobustAnswer, RobustStream
from chary.streaming.stream_attacks import cancelling

__all__ = ["ItemFrequency", "RobustAnswer", "RobustStream", "cancelling"]
