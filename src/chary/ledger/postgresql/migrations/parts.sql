-- Which parts of one partition a call may read, as its entry says it; empty where that is everything.
ALTER TABLE entries ADD COLUMN parts text COLLATE "C" NOT NULL DEFAULT '';

-- A unit is in at most `most` parts of a partition.
CREATE TABLE partitions (
    dataset text COLLATE "C" REFERENCES datasets (name),
    partition text COLLATE "C",
    most bigint NOT NULL CHECK (most > 0),
    PRIMARY KEY (dataset, partition)
);

-- What each part holds of all calls, under the name of no analyst, and of those of each analyst.
CREATE TABLE parts (
    dataset text COLLATE "C",
    analyst text COLLATE "C",
    partition text COLLATE "C",
    part text COLLATE "C",
    spent_main bigint NOT NULL,
    spent_delta bigint NOT NULL,
    open_main bigint NOT NULL,
    open_delta bigint NOT NULL,
    PRIMARY KEY (dataset, analyst, partition, part),
    FOREIGN KEY (dataset, partition) REFERENCES partitions (dataset, partition),
    CHECK (0 <= open_main AND open_main <= spent_main),
    CHECK (0 <= open_delta AND open_delta <= spent_delta)
);

CREATE TABLE call_parts (
    call bigint REFERENCES calls (number),
    partition text COLLATE "C",
    part text COLLATE "C",
    PRIMARY KEY (call, partition, part)
);

CREATE INDEX parts_by_spent_main ON parts (dataset, analyst, partition, spent_main);
CREATE INDEX parts_by_spent_delta ON parts (dataset, analyst, partition, spent_delta);
CREATE INDEX parts_by_open_main ON parts (dataset, analyst, partition, open_main);
CREATE INDEX parts_by_open_delta ON parts (dataset, analyst, partition, open_delta);

-- Whoever reads what is public goes on to.
DO $$
DECLARE
    reader text;
BEGIN
    FOR reader IN SELECT DISTINCT grantee FROM information_schema.role_table_grants
        WHERE table_schema = current_schema() AND table_name = 'calls' AND privilege_type = 'SELECT' AND grantee <> 'PUBLIC'
    LOOP
        EXECUTE format('GRANT SELECT ON partitions, parts, call_parts TO %I', reader);
    END LOOP;
END $$;

-- The hash of an entry, as every ledger makes it: an empty origin, a basic part of 0 and empty parts are left out.
CREATE OR REPLACE FUNCTION seal(previous text, e entries) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    counted text := concat_ws(',', e.main, e.delta, e.back_main, e.back_delta, e.hits, e.tests);
    words text := concat(e.number, ',', to_json(e.kind), ',', to_json(e.dataset), ',', to_json(e.analyst), ',', e.call,
        ',', to_json(e.label), ',', to_json(e.body), ',', coalesce(to_json(e.request)::text, 'null'), ',', counted,
        ',', to_json(e.answer_hash), ',', to_json(e.created));
BEGIN
    IF octet_length(words) <> length(words) OR strpos(words, chr(127)) > 0 THEN
        words := concat(e.number, ',', json_text(e.kind), ',', json_text(e.dataset), ',', json_text(e.analyst), ',',
            e.call, ',', json_text(e.label), ',', json_text(e.body), ',', json_text(e.request), ',', counted,
            ',', json_text(e.answer_hash), ',', json_text(e.created));
    END IF;
    IF (e.origin = '') IS NOT TRUE THEN
        words := concat(words, ',', json_text(e.origin));
    END IF;
    IF (e.basic = 0) IS NOT TRUE THEN
        words := concat(words, ',', e.basic);
    END IF;
    IF (e.parts = '') IS NOT TRUE THEN
        words := concat(words, ',[', json_text(e.parts), ']');
    END IF;
    RETURN encode(sha256(convert_to(previous || '[' || words || ']', 'UTF8')), 'hex');
END $$;

-- Four totals: spent and open, main and delta.
CREATE TYPE totals AS (spent_main bigint, spent_delta bigint, open_main bigint, open_delta bigint);

-- What the dearest parts of a partition hold together: as many of them as a unit can be in.
CREATE FUNCTION dearest(held entries, who text, named text, count bigint) RETURNS totals LANGUAGE plpgsql STABLE AS $$
DECLARE
    found totals;
BEGIN
    SELECT coalesce(sum(h.spent_main), 0) INTO found.spent_main FROM (SELECT p.spent_main FROM parts p
        WHERE (p.dataset, p.analyst, p.partition) = (held.dataset, who, named) ORDER BY p.spent_main DESC LIMIT count) h;
    SELECT coalesce(sum(h.spent_delta), 0) INTO found.spent_delta FROM (SELECT p.spent_delta FROM parts p
        WHERE (p.dataset, p.analyst, p.partition) = (held.dataset, who, named) ORDER BY p.spent_delta DESC LIMIT count) h;
    SELECT coalesce(sum(h.open_main), 0) INTO found.open_main FROM (SELECT p.open_main FROM parts p
        WHERE (p.dataset, p.analyst, p.partition) = (held.dataset, who, named) ORDER BY p.open_main DESC LIMIT count) h;
    SELECT coalesce(sum(h.open_delta), 0) INTO found.open_delta FROM (SELECT p.open_delta FROM parts p
        WHERE (p.dataset, p.analyst, p.partition) = (held.dataset, who, named) ORDER BY p.open_delta DESC LIMIT count) h;
    RETURN found;
END $$;

-- Lets each part that the entry of a call names hold so much more, in all or of one analyst. What comes back is by how
-- much the dearest hold more then; of a call of all rows, that itself.
CREATE FUNCTION raised(held entries, who text, more totals) RETURNS totals LANGUAGE plpgsql AS $$
DECLARE
    named text;
    count bigint;
    before totals;
    after totals;
BEGIN
    IF held.parts = '' THEN
        RETURN more;
    END IF;
    named := held.parts::json ->> 'partition';
    SELECT most INTO STRICT count FROM partitions p WHERE (p.dataset, p.partition) = (held.dataset, named);
    before := dearest(held, who, named, count);
    -- By the key, whatever the server knows of the table. What is given back was charged before, so it is there.
    INSERT INTO parts AS p
    SELECT held.dataset, who, named, part, greatest(more.spent_main, 0), greatest(more.spent_delta, 0),
        greatest(more.open_main, 0), greatest(more.open_delta, 0)
    FROM json_array_elements_text(held.parts::json -> 'names') part
    ON CONFLICT (dataset, analyst, partition, part) DO UPDATE SET spent_main = p.spent_main + more.spent_main,
        spent_delta = p.spent_delta + more.spent_delta, open_main = p.open_main + more.open_main,
        open_delta = p.open_delta + more.open_delta;
    after := dearest(held, who, named, count);
    RETURN (after.spent_main - before.spent_main, after.spent_delta - before.spent_delta,
        after.open_main - before.open_main, after.open_delta - before.open_delta)::totals;
END $$;

-- Writes down which parts a call names, and the first time in how many of its parts a unit is; nothing else fits then.
CREATE FUNCTION post_parts(e entries) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    named text := e.parts::json ->> 'partition';
    at_most bigint := (e.parts::json ->> 'most')::bigint;
    told text;
BEGIN
    SELECT '{"most":' || at_most || ',"names":[' || string_agg(json_text(part), ',' ORDER BY part COLLATE "C")
        || '],"partition":' || json_text(named) || '}' INTO told
    FROM (SELECT DISTINCT part COLLATE "C" AS part FROM json_array_elements_text(e.parts::json -> 'names') part
        WHERE part <> '') parts;
    IF (told = e.parts AND named <> '' AND at_most BETWEEN 1 AND 2147483647) IS NOT TRUE THEN
        PERFORM refuse('the parts of the entry are not as a ledger writes them');
    END IF;
    INSERT INTO partitions VALUES (e.dataset, named, at_most) ON CONFLICT DO NOTHING;
    PERFORM 1 FROM partitions p WHERE (p.dataset, p.partition, p.most) = (e.dataset, named, at_most);
    IF NOT FOUND THEN
        PERFORM refuse('the partition is held with another number of parts in which one unit is');
    END IF;
    INSERT INTO call_parts SELECT e.number, named, part FROM json_array_elements_text(e.parts::json -> 'names') part;
END $$;

-- The rule of admission is that of `chary.amounts.Accounts`, by how much more is spent. A call that does not fit into the
-- basic account closes it: it then holds one step more than its capacity. One that fits into that alone ends the main
-- account. A cap counts main and delta, so that the main account alone admits what an analyst asks who has one.
CREATE OR REPLACE FUNCTION post_reserve(e entries) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    price totals := (e.main, e.delta, e.main, e.delta);
    more totals;
BEGIN
    IF (e.call = e.number AND (e.back_main, e.back_delta, e.hits, e.tests, e.answer_hash) = (0, 0, 0, 0, '')) IS NOT TRUE THEN
        PERFORM refuse('the entry is no reservation');
    END IF;
    PERFORM unanswered(e, e.request);
    PERFORM 1 FROM datasets WHERE name = e.dataset;
    IF NOT FOUND THEN
        PERFORM refuse('there is no such dataset');
    END IF;
    INSERT INTO analysts VALUES (e.dataset, e.analyst, NULL, NULL, 0, 0, 0, 0) ON CONFLICT DO NOTHING;
    INSERT INTO calls VALUES (e.number, e.dataset, e.analyst, e.request, 'reserved', NULL, e.main, e.delta);
    IF e.parts <> '' THEN
        PERFORM post_parts(e);
    END IF;
    more := raised(e, '', price);
    UPDATE datasets SET spent_main = spent_main + more.spent_main, spent_delta = spent_delta + more.spent_delta,
        open_main = open_main + more.open_main, open_delta = open_delta + more.open_delta, spent_basic = spent_basic + e.basic,
        alone = CASE WHEN capacity_basic > 0 AND more.spent_main > capacity_main - spent_main THEN 1 ELSE alone END
    WHERE name = e.dataset AND more.spent_delta <= capacity_delta - spent_delta
        AND e.basic <= CASE capacity_basic WHEN 0 THEN 0 ELSE capacity_basic + 1 - spent_basic END
        AND CASE WHEN alone = 0 AND more.spent_main <= capacity_main - spent_main THEN TRUE
            ELSE capacity_basic > 0 AND e.basic <= capacity_basic - spent_basic
                AND more.spent_main <= 4611686018427387904 - spent_main
                AND (e.basic = 0 OR NOT EXISTS (SELECT 1 FROM analysts
                    WHERE analysts.dataset = e.dataset AND analysts.analyst = e.analyst AND cap_main IS NOT NULL))
        END;
    IF NOT FOUND THEN
        PERFORM refuse('the reservation passes the cap of the dataset');
    END IF;
    more := raised(e, e.analyst, price);
    UPDATE analysts SET spent_main = spent_main + more.spent_main, spent_delta = spent_delta + more.spent_delta,
        open_main = open_main + more.open_main, open_delta = open_delta + more.open_delta
    WHERE (dataset, analyst) = (e.dataset, e.analyst)
        AND (cap_main IS NULL OR more.spent_main <= cap_main - spent_main)
        AND (cap_delta IS NULL OR more.spent_delta <= cap_delta - spent_delta);
    IF NOT FOUND THEN
        PERFORM refuse('the reservation passes the cap of the analyst');
    END IF;
END $$;

-- Settles or voids: the price and what is given back are together what was reserved, so a total only falls by a part
-- of this very reservation.
CREATE OR REPLACE FUNCTION post_close(e entries, answer text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    held calls;
    reserved entries;
    back totals;
    more totals;
BEGIN
    SELECT * INTO held FROM calls WHERE number = e.call FOR UPDATE;
    SELECT * INTO reserved FROM entries WHERE number = e.call;
    IF (held.state = 'reserved' AND (held.dataset, held.analyst, reserved.label) = (e.dataset, e.analyst, e.label)
        AND (held.charged_main - e.main, held.charged_delta - e.delta) = (e.back_main, e.back_delta)) IS NOT TRUE THEN
        PERFORM refuse('the entry closes no open call, or for another price');
    END IF;
    IF (CASE e.kind WHEN 'void' THEN (e.main, e.delta, e.hits, e.tests, e.answer_hash) = (0, 0, 0, 0, '')
        ELSE encode(sha256(convert_to(answer, 'UTF8')), 'hex') = e.answer_hash END) IS NOT TRUE THEN
        PERFORM refuse('the entry is not that of this answer');
    END IF;
    back := (-e.back_main, -e.back_delta, -held.charged_main, -held.charged_delta);
    more := raised(reserved, '', back);
    UPDATE datasets SET spent_main = spent_main + more.spent_main, spent_delta = spent_delta + more.spent_delta,
        open_main = open_main + more.open_main, open_delta = open_delta + more.open_delta
    WHERE datasets.name = e.dataset;
    more := raised(reserved, e.analyst, back);
    UPDATE analysts SET spent_main = spent_main + more.spent_main, spent_delta = spent_delta + more.spent_delta,
        open_main = open_main + more.open_main, open_delta = open_delta + more.open_delta
    WHERE dataset = e.dataset AND analyst = e.analyst;
    IF e.kind = 'settle' THEN
        PERFORM unanswered(e, held.request);
        INSERT INTO answers VALUES (e.call, answer);
        INSERT INTO tallies VALUES (e.dataset, e.label, 1, e.hits, e.tests, e.main, e.delta)
        ON CONFLICT (dataset, kind) DO UPDATE SET calls = tallies.calls + 1, hits = tallies.hits + e.hits,
            tests = tallies.tests + e.tests, main = tallies.main + e.main, delta = tallies.delta + e.delta;
    END IF;
    UPDATE calls SET state = CASE e.kind WHEN 'void' THEN 'voided' ELSE 'settled' END, closing = e.number,
        charged_main = e.main, charged_delta = e.delta
    WHERE number = e.call;
END $$;

-- Of the entries that reserve alone.
CREATE FUNCTION check_parts() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF (NEW.parts = '' OR NEW.kind = 'reserve') IS NOT TRUE THEN
        PERFORM refuse('only a reservation names parts');
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER parts_are_of_charges BEFORE INSERT ON entries FOR EACH ROW EXECUTE FUNCTION check_parts();

REVOKE ALL ON FUNCTION dearest(entries, text, text, bigint), raised(entries, text, totals), post_parts(entries), check_parts()
    FROM PUBLIC;
