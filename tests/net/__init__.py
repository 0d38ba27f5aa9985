"""A net under a change of form: whatever the code does is recorded here, and the suite says where it differs.

- `recorded/transcripts`: each recipe of `tests/conformance/samples.py` under each filter and between each kind of
  neighbours. Kept are quote, text in the ledger, event, price, the answer as JSON, text and HTML, findings, statement.
- `recorded/texts`: the SQL of every form in each dialect, the help and the figures of commands, the document of the
  HTTP API.
- `recorded/golden`: ledgers of every recipe in files and on a server, a file and a folder that grew, what `chary rerun`
  and `chary pmw` find by their keys, a service's database, values on the wire.

What one does with it:

- `python -m tests.net.differ [PART]` says what differs from what is kept, and changes nothing.
- `python -m tests.net.record [PART]` writes it anew: all parts, or those that are named. A diff shows what changed.
- `python -m tests.net.uncovered` runs the net and says which modules and functions of `src` it never enters.

Noise is seeded. Numbers agree to 9 digits, so that any processor will do; times and hashes are masked; texts agree to
the letter, so the wording of help and of SQL is that of the pinned Typer, Rich, Ibis and SQLGlot. Transcripts and texts
are recorded again whenever behaviour is meant to change. `golden` is opened by every later version: once something was
released, what is there stays, and what is new goes beside it.
"""
