"""Where rows lie that Spark reads: files, folders, tables, and what is sent to it."""
