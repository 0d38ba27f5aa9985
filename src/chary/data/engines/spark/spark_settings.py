"""What a session of Spark is told so that a query means what it means in every engine."""

from collections.abc import Mapping
from typing import Any, Final

# Where a setting is Spark's own default, a user's session may still have another one.
SETTINGS: Final[Mapping[str, str]] = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    # Otherwise ${name} in a text would be a setting's value.
    "spark.sql.variable.substitute": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.ansi.enforceReservedKeywords": "false",
    "spark.sql.groupByOrdinal": "true",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    # Beyond this many texts or numbers in a list Spark would look them up in a set, which tells -0.0 from 0.0.
    "spark.sql.optimizer.inSetConversionThreshold": str(2**31 - 1),
    # A missing or damaged file is an error, and not fewer rows.
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.parquet.mergeSchema": "false",
    "spark.sql.parquet.binaryAsString": "false",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
}
# Deprecated, so that setting it is complained of: what a user's session says of it is left behind, and only where it is
# said of all sessions it is unsaid. With it a backslash in a text would be another sign, and no quote could be in one.
_LEFT: Final = frozenset({"spark.sql.parser.escapedStringLiterals"})


def own_session(session: Any) -> Any:
    """A session beside a user's, with its settings but ours and without its temporary views; the user's stays as it is.

    Both are of one Spark, which ends for neither when the other one is no longer needed.
    """
    made, theirs = session.newSession(), session.conf.getAll
    for key, value in (theirs | SETTINGS).items():
        if key.startswith("spark.sql.") and key not in _LEFT and made.conf.isModifiable(key):
            made.conf.set(key, value)
    for key in _LEFT:
        if made.conf.get(key, "false") == "true":
            made.conf.set(key, "false")
    made.catalog.setCurrentCatalog(session.catalog.currentCatalog())
    made.catalog.setCurrentDatabase(session.catalog.currentDatabase())
    return made
