"""Texts of values as all engines write them: they are in ledgers and in sketches."""

from typing import Final

# `digits` are those that the server writes, `power` is that of ten behind them; `low` and `high` are the two nearest
# numbers with one digit less, and `zeros` the power of ten behind those.
_PARTS: Final = """
SELECT size, sign, written, digits, low, CAST(CAST(low AS numeric) + 1 AS text) AS high,
  power - length(digits) + CASE WHEN length(digits) > 1 THEN 2 ELSE 1 END AS zeros
FROM (
  SELECT size, sign, written, digits, power, left(digits, greatest(length(digits) - 1, 1)) AS low
  FROM (
    SELECT size, sign, written, replace(split_part(written, 'e', 1), '.', '') AS digits,
      coalesce(CAST(nullif(split_part(written, 'e', 2), '') AS integer), 0) AS power
    FROM (
      SELECT abs({name}) AS size, CASE WHEN {name} < 0 THEN '-' ELSE '' END AS sign,
        CASE WHEN abs({name}) = CAST('Infinity' AS double precision) THEN '0'
          ELSE CAST(abs({name}) AS text) END AS written
    ) AS given
  ) AS split
) AS shortened
"""
_PLAIN: Final = (
    "rpad(left(digits, 16), 16, '0') || '.' || CASE WHEN length(digits) > 16 THEN substr(digits, 17) ELSE '0' END"
)


def of_double(name: str) -> str:
    """SQL for a double as Python writes it: the shortest digits, a point below 1e16, and one zero.

    The server writes no point behind whole numbers, an exponent from 1e15 on, and one digit more than is needed where
    fewer make a number just between two doubles, of which reading takes the even one. Numbers of so few digits lie
    between 2**54 and 1e40.
    """
    return (
        "(SELECT sign || CASE WHEN size = CAST('Infinity' AS double precision) THEN 'inf' "
        f"WHEN size >= 1e15 AND size < 1e16 THEN {_PLAIN} "
        f"WHEN {_read('low')} = size THEN {_scientific('low')} WHEN {_read('high')} = size THEN {_scientific('high')} "
        f"WHEN written ~ '[.e]' THEN written ELSE written || '.0' END FROM ({_PARTS.format(name=name)}) AS parts)"
    )


def of_moment(name: str) -> str:
    """SQL for a date or a timestamp; years before the first are set in brackets."""
    return f"replace(CAST({name} AS text), ' BC', ' (BC)')"


def _read(digits: str) -> str:
    """As a double, where it may be wanted; else one that is the size of nothing."""
    asked = f"CASE WHEN size >= 1e16 AND size < 1e40 THEN {digits} || 'e' || zeros ELSE '-1' END"
    return f"CAST({asked} AS double precision)"


def _scientific(digits: str) -> str:
    shown = f"rtrim({digits}, '0')"
    point = f"CASE WHEN length({shown}) > 1 THEN '.' || substr({shown}, 2) ELSE '' END"
    return f"left({shown}, 1) || {point} || 'e+' || CAST(zeros + length({digits}) - 1 AS text)"
