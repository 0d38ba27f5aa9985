"""One line for each kind of call: what every kind must do is tested in test_every_kind.py."""

from chary import Algorithm, count

CLINICS = ["north", "south", "east"]
EXTREME = 10**9


def fixed(value, epsilon="0.01"):
    """An algorithm whose outcome is known."""
    return Algorithm("fixed", lambda rows, source: value, epsilon=epsilon)


def revise(session, name):
    """Needs a held outcome."""
    held = session.release_if(count(), above=EXTREME, epsilon="0.01", request=f"held {name}")
    return lambda key: session.revise(held.call, above=-EXTREME, request=key)


def best_of_call(session, name):
    """Needs two targets side by side."""
    race = session.best_of(["a", "b"], request=f"race {name}")
    return lambda key: race.call(fixed(1), priors={"a": 1, "b": 2}, request=key)


def asked(ask):
    """A question that needs no earlier call."""
    return lambda session, name: lambda key: ask(session, key)


# Given a session and a name, each prepares what it needs and returns how to ask under a request key.
KINDS = {
    "release": asked(lambda s, key: s.release(count(), epsilon="0.01", request=key)),
    "release of keys": asked(lambda s, key: s.release(count().by("clinic", CLINICS), rho="0.0001", request=key)),
    "test": asked(lambda s, key: s.test(count(), above=51, epsilon="0.01", request=key)),
    "release_if": asked(lambda s, key: s.release_if(count(), above=-EXTREME, epsilon="0.01", request=key)),
    "revise": revise,
    "watch": asked(lambda s, key: s.watch(count().by("clinic", CLINICS), above=-EXTREME, epsilon="0.01", request=key)),
    "call": asked(lambda s, key: s.call(fixed([1, "a"]), prior=2, request=key)),
    "track": asked(lambda s, key: s.track(count(), step=100, epsilon="0.01").ask(request=key)),
    "call_twice": asked(lambda s, key: s.call_twice(fixed(1), request=key)),
    "between": asked(lambda s, key: s.between(count(), low=-EXTREME, high=EXTREME, epsilon="0.01", request=key)),
    "decide": asked(lambda s, key: s.decide(count(), above=51, epsilon="0.01", request=key)),
    "classify": asked(lambda s, key: s.classify(count().by("clinic", CLINICS), epsilon="0.01", request=key)),
    "best_of": asked(lambda s, key: s.best_of(["a", "b", "c"], request=key)),
    "best_of_call": best_of_call,
}
