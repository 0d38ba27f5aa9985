"""What ledgers and services have stored of calls and queries, in the words of today, and the other way: JSON to JSON.

A stored word keeps its meaning for ever. Where a name changed, this table has both, and nothing else knows of it.
"""

from collections.abc import Mapping
from typing import Any, Final

# By today's name of a field the one under which it is stored, whatever query, call or answer has it.
STORED: Final[Mapping[str, str]] = {
    "delta_reserve": "approximate_delta",
    "max_groups_per_unit": "keep_per_unit",
    "max_rows_per_unit": "rows_per_unit",
    "assumed_groups_per_unit": "stated_per_unit",
    "neighbors": "relation",
    "neighbor_relation": "neighbouring",
}
CURRENT: Final[Mapping[str, str]] = {stored: name for name, stored in STORED.items()}
# The same for the kinds of queries.
_STORED_KINDS: Final = {"sum": "total"}
# Options of calls that are stored as a kind of their own: the kind of the call, and the options that this implies.
_OPTIONS: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    "choose_with_lead": ("choose", {"mechanism": "laplace", "lead": True}),
    "inverse_sensitivity": ("exponential_mechanism", {"score": None}),
    "label_clear": ("label", {"clear": True, "flip": False}),
    "mode": ("choose", {"mechanism": "inverse"}),
    "noisy_max_gaussian": ("choose", {"mechanism": "gaussian"}),
    "noisy_max": ("choose", {"mechanism": "gaussian"}),
    "randomized": ("randomized_values", {"column": None}),
    "sparse_weights": ("multiplicative_weights", {"prepaid": True}),
}
# Flags among them, which are stored by no name.
_FLAGS: Final = {name for _, said in _OPTIONS.values() for name, value in said.items() if value is True}
# The call of each stored kind. Where the body is the same as that of the call, the plan of the call chooses the kind.
# Services store single quantiles under a kind of their own; ledgers store them as quantiles.
_CURRENT_KINDS: Final = {
    **{stored: kind for kind, stored in _STORED_KINDS.items()},
    **{stored: kind for stored, (kind, _) in _OPTIONS.items()},
    "between": "classify",
    "call_twice": "boundary",
    "cover": "greedy",
    "decide": "classify",
    "extend": "widen",
    "quantile": "quantiles",
    "reselect": "widen",
    "revise": "widen",
    "watch": "release_if",
}
# By the kind of a call the name under which its `mechanism` is stored.
MECHANISM: Final[Mapping[str, str]] = {
    "choose": "by",
    "continual_count": "method",
    "greedy": "by",
    "growing_sparse_vector": "form",
    "majority": "rule",
    "most_common": "by",
    "randomized_values": "form",
    "sparse_vector": "form",
}


def stored(body: Mapping[str, Any], kind: str | None = None) -> dict[str, Any]:
    """A call or a query as ledgers hold it; `kind` is that of a call whose body does not name it.

    >>> stored({"kind": "histogram", "column": "age", "max_groups_per_unit": 2})
    {'kind': 'histogram', 'column': 'age', 'keep_per_unit': 2}
    """
    kind = str(kind or body.get("kind"))
    unsaid = _FLAGS | options_of(stored_kind(kind, body)).keys()
    said = {name: value for name, value in body.items() if name not in unsaid}
    return _renamed(said, STORED, _STORED_KINDS, {name: word for word, name in _own(kind).items()})


def current(body: Mapping[str, Any], kind: str | None = None) -> dict[str, Any]:
    """What a ledger or a service holds of a call or a query, in the words of today; `kind` as for `stored`.

    >>> current({"above": "5", "query": {"kind": "total", "column": "cost", "rows_per_unit": 2}})["query"]
    {'kind': 'sum', 'column': 'cost', 'max_rows_per_unit': 2}
    >>> current({"query": {"kind": "count"}, "rule": "inverse"}, "majority")
    {'query': {'kind': 'count'}, 'mechanism': 'inverse'}
    """
    kind = str(kind or body.get("kind"))
    return {**_renamed(body, CURRENT, _CURRENT_KINDS, _own(kind)), **options_of(kind)}


def current_kind(kind: str) -> str:
    """The kind of a call or a query that a ledger or a service holds, in the words of today.

    >>> current_kind("watch"), current_kind("test")
    ('release_if', 'test')
    """
    return _CURRENT_KINDS.get(kind, kind)


def stored_kind(kind: str, said: Mapping[str, Any]) -> str:
    """The kind under which ledgers store a call of this kind with these options.

    >>> stored_kind("choose", {"mechanism": "inverse", "epsilon": "0.1"}), stored_kind("choose", {})
    ('mode', 'choose')
    """
    made = (word for word, (now, options) in _OPTIONS.items() if now == kind and options.items() <= said.items())
    return next(made, kind)


def options_of(kind: str) -> Mapping[str, Any]:
    """The options of a call that its stored kind implies.

    >>> dict(options_of("mode")), dict(options_of("test"))
    ({'mechanism': 'inverse'}, {})
    """
    return _OPTIONS[kind][1] if kind in _OPTIONS else {}


def stored_kinds(kind: str) -> tuple[str, ...]:
    """All kinds under which ledgers store calls of this kind.

    >>> stored_kinds("release_if"), stored_kinds("test")
    (('release_if', 'watch'), ('test',))
    """
    return kind, *(word for word, now in _CURRENT_KINDS.items() if now == kind)


def _own(kind: str) -> dict[str, str]:
    """Today's names of what calls of this kind say, by the words that are stored; a report has a confidence, too."""
    accuracy = {} if kind == "None" else {"sure": "confidence"}
    return accuracy | ({MECHANISM[kind]: "mechanism"} if kind in MECHANISM else {})


def _renamed(
    body: Mapping[str, Any], names: Mapping[str, str], kinds: Mapping[str, str], own: Mapping[str, str]
) -> dict[str, Any]:
    """With these names here and in what is inside of it, and those of its own kind here alone."""
    here = {**names, **own}
    return {here.get(name, name): _within(name, value, names, kinds) for name, value in body.items()}


def _within(name: str, value: Any, names: Mapping[str, str], kinds: Mapping[str, str]) -> Any:
    """A query in a call, its keys, and queries in a list; columns, parameters and keys of callers are no names."""
    if name == "kind" and isinstance(value, str):
        return kinds.get(value, value)
    if isinstance(value, Mapping) and (name == "by" or isinstance(value.get("kind"), str)):
        return _renamed(value, names, kinds, {})
    if isinstance(value, list) and value and isinstance(value[0], Mapping):
        return [_within("", each, names, kinds) for each in value]
    return value
