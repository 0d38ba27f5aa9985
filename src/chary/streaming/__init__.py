"""Streaming estimators that stay right when the stream depends on their answers."""

from chary.streaming.attacks import cancelling
from chary.streaming.estimators import ItemFrequency
from chary.streaming.robust import RobustAnswer, RobustStream

__all__ = ["ItemFrequency", "RobustAnswer", "RobustStream", "cancelling"]
