#!/usr/bin/env bash
# One package: applies, imports everything, commits. step.sh "message" specs prefix...
set -euo pipefail
cd /work/main
message=$1 specs=$2; shift 2
python=.venv/bin/python
$python tools/move/apply.py /work/main "$specs" "$@"
$python tools/move/imports.py
.venv/bin/ruff check --output-format concise src tests benchmarks || true
git add -A && git commit -qm "$message" && git log --oneline -1
