"""What a service costs that keeps nothing and protects nothing: a FastAPI endpoint that asks DuckDB and answers.

`uvicorn bare_service:app --app-dir benchmarks`, with the Parquet file in BARE_ROWS; `service_load.py` begins it.
"""

import os
import threading
from typing import Any

import duckdb
from fastapi import FastAPI

QUERY = "SELECT count(DISTINCT unit) FROM visits WHERE age >= $1"
app = FastAPI()
database = duckdb.connect()
database.execute("CREATE TABLE visits AS SELECT * FROM read_parquet($1)", [os.environ["BARE_ROWS"]])
here = threading.local()


@app.get("/ready")
def ready() -> dict[str, bool]:
    return {"ready": True}


@app.post("/count")
def count(body: dict[str, Any]) -> dict[str, int]:
    if not hasattr(here, "cursor"):
        here.cursor = database.cursor()
    found = here.cursor.execute(QUERY, [int(body["age"])]).fetchone()
    return {"answer": found[0] if found else 0}
