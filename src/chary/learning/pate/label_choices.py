"""Which public points to ask about when only a few labels can be paid."""

import numpy as np
from numpy.typing import ArrayLike
from sklearn.cluster import KMeans

from chary.errors import InvalidParameter
from chary.learning.linear_estimators import matrix
from chary.numbers import whole


def spread_points(points: ArrayLike, count: int, *, seed: int = 0) -> list[int]:
    """The numbers of `count` different points, each the nearest of its cluster (k-means) to the centre.

    The points are public and nothing else is used, so nothing is charged. Typical points are also those on which
    teachers agree most, so a label buys more here than at a random point.

    Errors: `InvalidParameter` for more than there are different points.

    >>> sorted(spread_points([[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]], 2))
    [1, 4]
    """
    table = matrix(points, "points")
    if not np.isfinite(table).all() or len(np.unique(table, axis=0)) < whole(count, "count"):
        raise InvalidParameter("there are not so many different points, or some hold no finite numbers")
    clusters = KMeans(count, n_init=4, random_state=seed).fit(table)
    distances = clusters.transform(table)
    members = [np.flatnonzero(clusters.labels_ == cluster) for cluster in range(count)]
    return [int(inside[distances[inside, cluster].argmin()]) for cluster, inside in enumerate(members)]
