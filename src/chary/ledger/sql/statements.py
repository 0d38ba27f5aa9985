"""Statements of SQL that read and write a ledger's tables, made once."""

from __future__ import annotations

from sqlalchemy import BindParameter, Table, and_, bindparam, case, delete, insert, join, literal_column, select, update

from chary.ledger.entries import ChainEntry
from chary.ledger.sql.schema import BASIC, analysts, answers, calls, chain, datasets, entries, secrets, tallies

_TOTALS = ("spent_main", "spent_delta", "open_main", "open_delta")


def _moving(table: Table, *names: str) -> dict[str, object]:
    """Columns that grow by the parameter of their own name with `_by` behind it."""
    return {name: table.c[name] + bindparam(f"{name}_by") for name in names}


of_call: BindParameter[int] = bindparam("of_call")
entry_columns = [entries.c[name] for name in ChainEntry._fields]
head_columns = [chain.c.entries.label("head_number"), chain.c.head]

read_head = select(*head_columns)
read_standing = (
    select(
        *head_columns,
        datasets.c.capacity_main,
        datasets.c.capacity_delta,
        *[datasets.c[name].label(f"dataset_{name}") for name in (*_TOTALS, *BASIC)],
        analysts.c.analyst,
        analysts.c.cap_main,
        analysts.c.cap_delta,
        *[analysts.c[name].label(f"analyst_{name}") for name in _TOTALS],
    )
    .select_from(chain)
    .join(datasets, datasets.c.name == bindparam("dataset"))
    .outerjoin(analysts, and_(analysts.c.dataset == datasets.c.name, analysts.c.analyst == bindparam("analyst")))
)
read_reserved = (
    select(*entry_columns, *head_columns, calls.c.state)
    .select_from(calls)
    .join(entries, entries.c.number == calls.c.number)
    .join(chain, literal_column("1=1"))
    .where(calls.c.number == bindparam("call"))
)
read_settled = select(calls.c.dataset).where(calls.c.number == bindparam("call"), calls.c.state == "settled")
_one_key = and_(
    calls.c.dataset == bindparam("dataset"),
    calls.c.analyst == bindparam("analyst"),
    calls.c.request == bindparam("request"),
)
_with_entry = join(calls, entries, entries.c.number == calls.c.number)
read_unanswered = select(entries.c.hash).select_from(_with_entry).where(_one_key, calls.c.state == "reserved")
read_key_settled = select(calls.c.number).where(_one_key, calls.c.state == "settled").limit(1)
read_asked = (
    select(*entry_columns, calls.c.state)
    .select_from(_with_entry)
    .where(_one_key, calls.c.state != "voided")
    .order_by(calls.c.closing.is_(None), calls.c.closing)
    .limit(1)
)

add_entry = insert(entries)
move_head = update(chain).values(entries=bindparam("new_entries"), head=bindparam("new_head"))

add_dataset = insert(datasets)
_one_dataset = datasets.c.name == bindparam("of_dataset")
charge_dataset = update(datasets).where(_one_dataset).values(_moving(datasets, *_TOTALS))
_main_left = datasets.c.capacity_main - datasets.c.spent_main
# Before the totals move, so that they are those that the charge found.
count_basic = (
    update(datasets)
    .where(_one_dataset, datasets.c.capacity_basic > 0)
    .values(
        spent_basic=datasets.c.spent_basic + bindparam("basic_by"),
        alone=case((_main_left < bindparam("main_by"), 1), else_=datasets.c.alone),
    )
)
give_basic_back = (
    update(datasets)
    .where(_one_dataset, datasets.c.spent_basic <= datasets.c.capacity_basic)
    .values(spent_basic=datasets.c.spent_basic - bindparam("basic_by"))
)
set_format = update(chain).values(format=bindparam("new_format"))
raise_version = (
    update(datasets).where(datasets.c.name == bindparam("of_dataset")).values(version=datasets.c.version + 1)
)

_one_analyst = and_(analysts.c.dataset == bindparam("of_dataset"), analysts.c.analyst == bindparam("of_analyst"))
add_analyst = insert(analysts)
charge_analyst = update(analysts).where(_one_analyst).values(_moving(analysts, *_TOTALS))
cap_analyst = (
    update(analysts).where(_one_analyst).values(cap_main=bindparam("new_main"), cap_delta=bindparam("new_delta"))
)

add_tally = insert(tallies)
raise_tally = (
    update(tallies)
    .where(tallies.c.dataset == bindparam("of_dataset"), tallies.c.kind == bindparam("of_kind"))
    .values(_moving(tallies, "calls", "hits", "tests", "main", "delta"))
)

add_call = insert(calls)
close_call = (
    update(calls)
    .where(calls.c.number == bindparam("call"))
    .values({name: bindparam(f"new_{name}") for name in ("state", "closing", "charged_main", "charged_delta")})
)
add_answer = insert(answers)
add_secret = insert(secrets)
read_digest = select(secrets.c.digest).where(secrets.c.call == of_call)
drop_secret = delete(secrets).where(secrets.c.call == of_call)
