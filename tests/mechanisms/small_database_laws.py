"""Small databases of tiny universes: their law by brute force over all multisets, and as the mechanism has it."""

import math
from collections import Counter
from fractions import Fraction
from itertools import combinations_with_replacement

import numpy as np

from chary.mechanisms.small_database import Classes, SmallDatabases

# One flag a cell for each query; cells 0 and 3 are told apart by none in the first, all are in the last.
WORKLOADS = {
    "overlapping": [[1, 0, 1, 1, 0], [0, 1, 1, 0, 0]],
    "one query": [[1, 1, 0, 0]],
    "every cell": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "nothing": [[0, 0, 0]],
    "everywhere": [[1, 1], [1, 0]],
}
MEASURES = ("classes", "databases")


def made(flags, rows=3, measure="databases", epsilon="0.8"):
    queries = np.array(flags, bool)
    return SmallDatabases(epsilon, rows, Classes.of(queries.shape[1], queries), measure)


def answers(flags, data):
    """How many rows of the data, a number for each cell, satisfy each query."""
    return [int(np.dot(query, data)) for query in flags]


def tallied(cells, database):
    return [database.count(cell) for cell in range(cells)]


def worst(flags, data, database):
    """The score of a database given as a list of cells, as an exact share of rows."""
    cells, size = len(flags[0]), sum(data)
    found = answers(flags, tallied(cells, database))
    pairs = zip(answers(flags, data), found, strict=True)
    return max(abs(Fraction(true, size) - Fraction(told, len(database))) for true, told in pairs)


def brute(flags, data, rows, measure, epsilon):
    """The law over all multisets of cells by [BLR08], or evenly within candidates that count once."""
    databases = list(combinations_with_replacement(range(len(flags[0])), rows))
    columns = list(zip(*flags, strict=True))
    groups = {database: tuple(sorted(columns[cell] for cell in database)) for database in databases}
    sizes = Counter(groups.values()) if measure == "classes" else Counter(dict.fromkeys(groups.values(), 1))
    size = sum(data)
    weights = {
        database: math.exp(-epsilon * size / 2 * float(worst(flags, data, database))) / sizes[groups[database]]
        for database in databases
    }
    total = math.fsum(weights.values())
    return {database: weight / total for database, weight in weights.items()}


def candidates(mechanism, counts, size):
    """The probability of each candidate, from the law of the score."""
    scores, which = mechanism.scored(counts, size)
    law = mechanism.law(scores, which).probabilities()
    ranks = np.arange(mechanism.classes.candidates(mechanism.rows))
    weights = np.ones(len(ranks)) if mechanism.measure == "classes" else mechanism.copies(mechanism.members(ranks))
    sums = np.bincount(which, weights)
    return np.array(law)[which] * weights / sums[which]


def law(flags, data, rows, measure, epsilon):
    """The law over all multisets of cells: candidates, and within one all multisets evenly."""
    mechanism = made(flags, rows, measure, epsilon)
    chances = candidates(mechanism, answers(flags, data), sum(data))
    members = mechanism.members(np.arange(len(chances)))
    place = {tuple(column): number for number, column in enumerate(members.T.tolist())}
    labels = mechanism.classes.labels
    found = {
        database: place[tuple(sorted(labels[list(database)].tolist()))]
        for database in combinations_with_replacement(range(len(labels)), rows)
    }
    alike = Counter(found.values())
    return {database: chances[number] / alike[number] for database, number in found.items()}
