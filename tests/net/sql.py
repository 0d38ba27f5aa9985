"""The SQL of every form of a query in each dialect, made without a server and without Spark.

What `tests/engines` asks of every engine is asked here once a form: neighbours and limits as there, what is left open
drawn alike on every day. The wording is that of the pinned Ibis and SQLGlot.
"""

import random
from functools import cache

from chary.data import NeighborRelation, Neighbors, Predicate, RowTable
from chary.data.engines.compiler import QueryPlace, element_rows, evaluate, ordered_rows
from chary.data.engines.duckdb.engine import DUCK
from chary.data.engines.postgresql.engine import POSTGRES
from chary.data.engines.spark.dialect import SPARK
from chary.data.engines.sql import LivingPlan
from chary.data.queries.ordered import Elements
from chary.data.queries.stored import STORED
from tests.engines import asked
from tests.engines.asked import ANSWERED, NEIGHBOURS, OF_UNIT, Picker
from tests.engines.cells import ROWS, WORLDS, frame
from tests.net.kept import told

DIALECTS = {"duckdb": DUCK, "postgresql": POSTGRES, "spark": SPARK}
LIVING_LIMITS = ({}, {"max_groups_per_unit": 1}, {"max_rows_per_unit": 2})


@cache
def schema():
    """The types of the columns that the engines' tests ask of."""
    table = RowTable.open(frame(ROWS), neighbor_relation=NeighborRelation("replace", None))
    found = table.schema
    table.close()
    return found


def statements(dialect):
    """The SQL of each form in one dialect."""
    place = QueryPlace("chary_rows", "chary_keys", DIALECTS[dialect])
    return [line for made in (_answers, _orders, _elements, _living) for line in made(dialect, place)]


def _pick(form, neighbors, unit, limits):
    # What is drawn follows from the words under which limits are stored.
    kept = {STORED.get(name, name): limit for name, limit in limits.items()}
    drawn = random.Random(f"{form} {Neighbors(neighbors).stored} {unit} {kept}")
    return Picker(drawn, drawn.randrange(WORLDS), NeighborRelation(neighbors, unit))


def _answers(dialect, place):
    for form, neighbors, unit, limits in asked.rows_of():
        for query in ANSWERED[form][2](_pick(form, neighbors, unit, limits), limits):
            found = evaluate(query, schema(), unit, place)
            yield _line(form, neighbors, unit, limits, place.sql(found.expression)) | {
                "asked": told(query.body()),
                "keys": {name: [kind, [str(key) for key in keys]] for name, (kind, keys) in (found.keys or {}).items()},
                "positions": found.positions,
            }


def _orders(dialect, place):
    for neighbors, unit in NEIGHBOURS:
        for of_unit, most in OF_UNIT if unit else OF_UNIT[:1]:
            limits = {"of_unit": of_unit, "max_rows_per_unit": most} if unit else {}
            query = asked.orders(_pick("ordered", neighbors, unit, limits), limits)
            sql = place.sql(ordered_rows(query, schema(), unit, place).expression)
            yield _line("values in order", neighbors, unit, limits, sql)


def _elements(dialect, place):
    for neighbors, unit in NEIGHBOURS:
        for limits in ({"max_groups_per_unit": 1}, {"assumed_groups_per_unit": 9}) if unit else ({},):
            pick = _pick("elements", neighbors, unit, limits)
            for query in (asked.element_sets(pick, limits), Elements(where=Predicate.of(pick.where()))):
                if unit or query.of is not None:
                    sql = place.sql(element_rows(query, schema(), unit, place))
                    yield _line("elements", neighbors, unit, limits, sql)


def _living(dialect, place):
    for neighbors, unit in NEIGHBOURS[:2]:
        for limits in LIVING_LIMITS:
            pick = _pick("living", neighbors, unit, limits)
            query = asked.totals(pick, limits) if "max_rows_per_unit" in limits else asked.count_without(pick, {})
            query = pick.by(query, {"max_groups_per_unit": 1}) if "max_groups_per_unit" in limits else query
            plan = LivingPlan.of(query, schema(), unit, place)
            yield _line("living units", neighbors, unit, limits, plan.cells) | {"keep": plan.keep, "size": plan.size}


def _line(form, neighbors, unit, limits, sql):
    return {"form": form, "between": f"{neighbors}, {unit}", "limits": told(limits), "sql": sql}
