"""Tables that can grow without a row that makes that fail, and the rights that it takes."""

from typing import Final

from chary.data.columns import listed
from chary.data.engines.postgresql.reaching import Cursor
from chary.data.engines.postgresql.tables.relation import FoundRelation
from chary.errors import EngineFailure, SchemaMismatch

_RIGHT: Final = "SELECT has_table_privilege($1::oid, 'INSERT')"
# An index takes any value if it has no condition and no expression, is not unique, and its columns are of one length.
_LIMITS: Final = """
SELECT 'constraint' FROM pg_constraint WHERE conrelid = $1 UNION
SELECT 'not null' FROM pg_attribute WHERE attrelid = $1 AND attnum > 0 AND NOT attisdropped AND attnotnull UNION
SELECT 'cast of an enumeration' FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
JOIN pg_cast k ON t.oid IN (k.castsource, k.casttarget) WHERE a.attrelid = $1 AND t.typtype = 'e' UNION
SELECT 'trigger' FROM pg_trigger WHERE tgrelid = $1 AND NOT tgisinternal UNION
SELECT 'rule' FROM pg_rewrite WHERE ev_class = $1 UNION
SELECT 'partition' FROM pg_class WHERE oid = $1 AND (relispartition OR relkind <> 'r') UNION
SELECT 'column that the role may not read' FROM pg_attribute
WHERE attrelid = $1 AND attnum > 0 AND NOT attisdropped AND NOT has_column_privilege(attrelid, attnum, 'SELECT') UNION
SELECT 'index' FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am m ON m.oid = c.relam
WHERE i.indrelid = $1 AND (i.indisunique OR i.indisexclusion OR i.indexprs IS NOT NULL OR i.indpred IS NOT NULL
  OR m.amname NOT IN ('btree', 'hash', 'brin')
  OR EXISTS (SELECT 1 FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attlen < 0))
ORDER BY 1
"""


def check_growable(cursor: Cursor, relation: FoundRelation) -> None:
    """`EngineFailure` for a missing right, `SchemaMismatch` for a table that may refuse a row.

    It would because of others, which it would tell of, or of itself.
    """
    [(may,)] = cursor.execute(_RIGHT, [relation.oid]).fetchall()
    if not may:
        raise EngineFailure("rows cannot be appended: the role lacks the right to INSERT; nothing was written")
    found = {what for (what,) in cursor.execute(_LIMITS, [relation.oid]).fetchall()}
    found |= {"domain" for column in relation.columns if column.domain}
    found |= {"generated column" for column in relation.columns if column.generated}
    if found:
        raise SchemaMismatch(
            f"rows cannot be appended to {relation.schema}.{relation.name}, which has: {listed(sorted(found))}. "
            "Whether it takes a row may follow from the rows, and a refusal would tell of them; copy it into a table "
            "without them. Nothing was written"
        )
