"""The page of the kernel has the modules and lines of the code, and nobody else does what they are trusted for."""

import ast

import pytest

from tests import kernel
from tests.figures import CHARY

# Who draws from the operating system besides noise, and for what; no answer about rows depends on any of these.
DRAWS = {
    "noise/source": "the randomness of every mechanism",
    "client/transport": "request keys",
    "data/engines/sql": "names of tables in marks",
    "data/engines/spark/storage": "names of temporary folders",
    "service/auth/openid": "states and nonces of logins",
    "service/auth/tokens": "tokens",
    "service/core/alerts": "request keys",
    "service/core/jobs": "request keys",
    "service/http/admission": "numbers of requests",
    "service/pages/ask": "request keys",
    "service/pages/custodian": "keys of forms",
    "service/pages/frame": "nonces of pages",
}
# Who draws from a seeded generator, and for what.
SEEDED = {
    "audit/": "games against the accounting",
    "calls/synthesis": "rows of a published histogram",
    "data/universe/axes": "rows of a published histogram",
    "demo/": "made-up rows",
    "experiments/": "made-up rows and games",
    "learning/classifiers": "splits of public data for experiments",
    "learning/holdout": "made-up rows of an experiment",
    "noise/source": "`Seeded`, which a session takes for tests alone, as `unsafe_noise`",
}
MOVES = {
    "core/transaction": "every call",
    "upcasting": "repairs the counters of old races, and charges what they lacked",
}
READS = {
    "core/transaction": "every call",
    "calls/compute": "a call that an operator is applied to, as the operator's own reading",
    "calls/public_histograms": "a public example table that the caller brings for an estimate, never a session's rows",
    "data/table": "where it is defined",
    "data/__init__": "hands it on",
}


def found(wanted):
    """The modules in which a node of the code is one of these."""
    modules = set()
    for path in CHARY.rglob("*.py"):
        name = str(path.relative_to(CHARY).with_suffix(""))
        if any(wanted(node) for node in ast.walk(ast.parse(path.read_text()))):
            modules.add(name)
    return modules


def called(names):
    """Calls of methods or functions of these names."""
    return lambda node: (
        isinstance(node, ast.Call)
        and (
            (isinstance(node.func, ast.Attribute) and node.func.attr in names)
            or (isinstance(node.func, ast.Name) and node.func.id in names)
        )
    )


def test_the_page_has_the_modules_and_lines_of_the_code():
    """Write it anew by: python -m tests.kernel --write"""
    text = kernel.PAGE.read_text()
    assert f"{kernel.BEGIN}\n{kernel.table()}\n{kernel.END}" in text


def test_the_first_ring_is_small():
    # Derived columns, which no row may make fail, are 400 of them; parts and which rows are in them 800, rows of an
    # earlier version and answers that go on from them 250, blocks and limits in each of them 250.
    assert sum(kernel.lines().values()) <= 7_900


def test_only_noise_draws_what_answers_are_made_of():
    drawing = {"urandom", "token_bytes", "token_urlsafe", "token_hex", "uuid4", "SystemRandom", "randbelow"}
    assert found(called(drawing)) == DRAWS.keys()


def test_other_generators_are_for_games_and_for_what_is_published():
    drawing = found(called({"default_rng", "Random", "RandomState"}))
    assert {name for name in drawing if not name.startswith(tuple(SEEDED))} == set()


def test_only_the_transaction_moves_a_budget():
    """`reserve` is no word of anybody else; a ledger's own modules forward it."""
    assert {name for name in found(called({"reserve"})) if not name.startswith("ledger/")} == MOVES.keys()


def test_only_the_transaction_reads_for_a_plan():
    assert found(called({"read_one_version"})) | {"data/table", "data/__init__"} == READS.keys()


@pytest.mark.parametrize("name", kernel.modules())
def test_no_module_of_the_first_ring_imports_a_kind_or_a_door(name):
    """But for the mathematics of events, which a filter asks, and the mechanisms' state, which a plan carries."""
    tree = ast.parse((CHARY / f"{name}.py").read_text())
    imported = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    outer = ("chary.calls", "chary.session", "chary.cli", "chary.service", "chary.report", "chary.learning")
    assert not [module for module in imported if module.startswith(outer)]
