CREATE INDEX calls_of_analyst ON calls (dataset, analyst, number);
CREATE INDEX calls_of_kind ON entries (dataset, label, analyst, number) WHERE kind = 'reserve';
CREATE INDEX notes ON entries (dataset, number) WHERE kind = 'note';
