"""The public report of a ledger; it needs no rows."""

from chary.report.public_report import PublicReport, report

__all__ = ["PublicReport", "report"]
