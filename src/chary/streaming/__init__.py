"""Streaming estimators that stay right when the stream depends on their answers."""

from chary.streaming.banks import Bank, Copies, SecondMoments
from chary.streaming.estimators import ItemFrequency
from chary.streaming.robust import RobustAnswer, RobustStream

__all__ = ["Bank", "Copies", "ItemFrequency", "RobustAnswer", "RobustStream", "SecondMoments"]
