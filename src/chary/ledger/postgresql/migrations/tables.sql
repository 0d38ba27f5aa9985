CREATE TABLE chain (
    id bigint PRIMARY KEY CHECK (id = 1),
    format bigint NOT NULL,
    entries bigint NOT NULL,
    head text COLLATE "C" NOT NULL
);

CREATE TABLE entries (
    number bigint PRIMARY KEY,
    kind text COLLATE "C" NOT NULL,
    dataset text COLLATE "C" NOT NULL,
    analyst text COLLATE "C" NOT NULL,
    call bigint NOT NULL,
    label text COLLATE "C" NOT NULL,
    body text COLLATE "C" NOT NULL,
    request text COLLATE "C",
    main bigint NOT NULL,
    delta bigint NOT NULL,
    back_main bigint NOT NULL,
    back_delta bigint NOT NULL,
    hits bigint NOT NULL,
    tests bigint NOT NULL,
    answer_hash text COLLATE "C" NOT NULL,
    created text COLLATE "C" NOT NULL,
    hash text COLLATE "C" NOT NULL
);

CREATE TABLE datasets (
    name text COLLATE "C" PRIMARY KEY,
    fingerprint text COLLATE "C" NOT NULL,
    conditions text COLLATE "C" NOT NULL,
    capacity_main bigint NOT NULL,
    capacity_delta bigint NOT NULL,
    spent_main bigint NOT NULL,
    spent_delta bigint NOT NULL,
    open_main bigint NOT NULL,
    open_delta bigint NOT NULL,
    version bigint NOT NULL,
    CHECK (0 <= open_main AND open_main <= spent_main AND spent_main <= capacity_main),
    CHECK (0 <= open_delta AND open_delta <= spent_delta AND spent_delta <= capacity_delta)
);

CREATE TABLE analysts (
    dataset text COLLATE "C" REFERENCES datasets (name),
    analyst text COLLATE "C",
    cap_main bigint,
    cap_delta bigint,
    spent_main bigint NOT NULL,
    spent_delta bigint NOT NULL,
    open_main bigint NOT NULL,
    open_delta bigint NOT NULL,
    PRIMARY KEY (dataset, analyst),
    CHECK (0 <= open_main AND open_main <= spent_main AND spent_main <= coalesce(cap_main, spent_main)),
    CHECK (0 <= open_delta AND open_delta <= spent_delta AND spent_delta <= coalesce(cap_delta, spent_delta))
);

CREATE TABLE tallies (
    dataset text COLLATE "C" REFERENCES datasets (name),
    kind text COLLATE "C",
    calls bigint NOT NULL,
    hits bigint NOT NULL,
    tests bigint NOT NULL,
    main bigint NOT NULL,
    delta bigint NOT NULL,
    PRIMARY KEY (dataset, kind)
);

CREATE TABLE calls (
    number bigint PRIMARY KEY REFERENCES entries (number),
    dataset text COLLATE "C" NOT NULL,
    analyst text COLLATE "C" NOT NULL,
    request text COLLATE "C",
    state text COLLATE "C" NOT NULL,
    closing bigint REFERENCES entries (number),
    charged_main bigint NOT NULL,
    charged_delta bigint NOT NULL,
    FOREIGN KEY (dataset, analyst) REFERENCES analysts (dataset, analyst)
);

CREATE TABLE answers (
    call bigint PRIMARY KEY REFERENCES calls (number),
    answer text COLLATE "C" NOT NULL
);

CREATE TABLE secrets (
    call bigint PRIMARY KEY REFERENCES calls (number),
    secret bytea NOT NULL,
    digest text COLLATE "C" NOT NULL
);

CREATE TABLE seals (
    id bigint PRIMARY KEY CHECK (id = 1),
    entries bigint NOT NULL,
    secrets bigint NOT NULL
);

CREATE TABLE departures (
    id bigint PRIMARY KEY CHECK (id = 1),
    place text COLLATE "C" NOT NULL,
    entries bigint NOT NULL,
    head text COLLATE "C" NOT NULL
);

CREATE INDEX calls_of_dataset ON calls (dataset, number);
CREATE INDEX charges ON calls (dataset, analyst, state, charged_main, charged_delta);
CREATE INDEX requests ON calls (dataset, analyst, request) WHERE request IS NOT NULL;

INSERT INTO chain VALUES (1, 1, 0, repeat('0', 64));
INSERT INTO seals VALUES (1, 0, 0);

CREATE FUNCTION entries_are_final() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'entries are final' USING ERRCODE = 'CHARY';
END $$;

CREATE TRIGGER entries_are_final BEFORE UPDATE OR DELETE OR TRUNCATE ON entries
    FOR EACH STATEMENT EXECUTE FUNCTION entries_are_final();

CREATE FUNCTION imprint(digest text) RETURNS bigint LANGUAGE sql IMMUTABLE STRICT AS $$
    SELECT sum(ascii(substr(digest, place, 1))::bigint << 7 * (place - 1))::bigint FROM generate_series(1, 6) place
$$;

CREATE FUNCTION keep_seal() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF TG_TABLE_NAME = 'chain' THEN
        UPDATE seals SET entries = NEW.entries;
    ELSIF TG_OP = 'INSERT' THEN
        UPDATE seals SET secrets = secrets + imprint(NEW.digest);
    ELSE
        UPDATE seals SET secrets = secrets - imprint(OLD.digest);
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER secrets_sealed AFTER INSERT OR DELETE ON secrets FOR EACH ROW EXECUTE FUNCTION keep_seal();
CREATE TRIGGER chain_sealed AFTER UPDATE ON chain FOR EACH ROW EXECUTE FUNCTION keep_seal();
