-- Every write goes through `append` and the functions of secrets, with the rights of the owner: other roles have no
-- right on any table but to read those that are public. A condition that is not known to be true (NULL) refuses.

CREATE FUNCTION refuse(why text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'CHARY', MESSAGE = why;
END $$;

-- A text as Python's JSON writes it: everything beyond printable ASCII is escaped.
CREATE FUNCTION json_text(words text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF octet_length(words) = length(words) AND strpos(words, chr(127)) = 0 THEN
        RETURN to_json(words)::text;
    END IF;
    RETURN coalesce('"' || (
        SELECT string_agg(
            CASE
                WHEN ascii(letter) > 65535 THEN
                    '\u' || to_hex(55296 + (ascii(letter) - 65536 >> 10)) || '\u' || to_hex(56320 + (ascii(letter) & 1023))
                WHEN ascii(letter) > 126 THEN '\u' || lpad(to_hex(ascii(letter)), 4, '0')
                ELSE substr(to_json(letter)::text, 2, length(to_json(letter)::text) - 2)
            END, '' ORDER BY place)
        FROM string_to_table(words, NULL) WITH ORDINALITY AS letters (letter, place)) || '"', 'null');
END $$;

-- The hash of an entry, as every ledger makes it. Nearly all entries are printable ASCII, which JSON writes alike
-- everywhere; so that is looked at once, for all of the entry.
CREATE FUNCTION seal(previous text, e entries) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
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
    RETURN encode(sha256(convert_to(previous || '[' || words || ']', 'UTF8')), 'hex');
END $$;

-- Whether the role that is connected may act as its owner. Only within functions that run with the owner's rights.
CREATE FUNCTION by_owner() RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT pg_has_role(session_user, current_user, 'USAGE')
$$;

CREATE FUNCTION hold(seen bigint) RETURNS TABLE (format bigint, entries bigint, head text, seen_hash text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    -- A statement of its own: the next one sees all that the last holder committed.
    PERFORM 1 FROM chain FOR UPDATE;
    RETURN QUERY SELECT c.format, c.entries, c.head, (SELECT e.hash FROM entries e WHERE e.number = seen) FROM chain c;
END $$;

CREATE FUNCTION post_open(e entries) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO datasets
    VALUES (e.dataset, e.body::json ->> 0, e.body::json ->> 1, e.main, e.delta, 0, 0, 0, 0, 0);
END $$;

CREATE FUNCTION post_share(e entries) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM datasets WHERE name = e.dataset AND e.main <= capacity_main AND e.delta <= capacity_delta;
    IF NOT FOUND THEN
        PERFORM refuse('the share is above the capacity of the dataset');
    END IF;
    INSERT INTO analysts VALUES (e.dataset, e.analyst, e.main, e.delta, 0, 0, 0, 0)
    ON CONFLICT (dataset, analyst) DO UPDATE SET cap_main = e.main, cap_delta = e.delta;
END $$;

CREATE FUNCTION post_note(e entries) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE datasets SET version = version + 1 WHERE name = e.dataset;
    IF NOT FOUND THEN
        PERFORM refuse('there is no such dataset');
    END IF;
END $$;

CREATE FUNCTION unanswered(e entries, key text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF key IS NOT NULL AND EXISTS (
        SELECT FROM calls WHERE (dataset, analyst, request, state) = (e.dataset, e.analyst, key, 'settled')
    ) THEN
        PERFORM refuse('a call under this request key was settled before');
    END IF;
END $$;

CREATE FUNCTION post_reserve(e entries) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF (e.call = e.number AND (e.back_main, e.back_delta, e.hits, e.tests, e.answer_hash) = (0, 0, 0, 0, '')) IS NOT TRUE THEN
        PERFORM refuse('the entry is no reservation');
    END IF;
    PERFORM unanswered(e, e.request);
    UPDATE datasets SET spent_main = spent_main + e.main, spent_delta = spent_delta + e.delta,
        open_main = open_main + e.main, open_delta = open_delta + e.delta
    WHERE name = e.dataset AND e.main <= capacity_main - spent_main AND e.delta <= capacity_delta - spent_delta;
    IF NOT FOUND THEN
        PERFORM refuse('the reservation passes the cap of the dataset');
    END IF;
    INSERT INTO analysts VALUES (e.dataset, e.analyst, NULL, NULL, e.main, e.delta, e.main, e.delta)
    ON CONFLICT (dataset, analyst) DO UPDATE SET spent_main = analysts.spent_main + e.main,
        spent_delta = analysts.spent_delta + e.delta, open_main = analysts.open_main + e.main,
        open_delta = analysts.open_delta + e.delta
    WHERE (analysts.cap_main IS NULL OR e.main <= analysts.cap_main - analysts.spent_main)
        AND (analysts.cap_delta IS NULL OR e.delta <= analysts.cap_delta - analysts.spent_delta);
    IF NOT FOUND THEN
        PERFORM refuse('the reservation passes the cap of the analyst');
    END IF;
    INSERT INTO calls VALUES (e.number, e.dataset, e.analyst, e.request, 'reserved', NULL, e.main, e.delta);
END $$;

-- Settles or voids: the price and what is given back are together what was reserved, so a total only falls by a part
-- of this very reservation.
CREATE FUNCTION post_close(e entries, answer text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    held calls;
    name text;
BEGIN
    SELECT * INTO held FROM calls WHERE number = e.call FOR UPDATE;
    SELECT label INTO name FROM entries WHERE number = e.call;
    IF (held.state = 'reserved' AND (held.dataset, held.analyst, name) = (e.dataset, e.analyst, e.label)
        AND (held.charged_main - e.main, held.charged_delta - e.delta) = (e.back_main, e.back_delta)) IS NOT TRUE THEN
        PERFORM refuse('the entry closes no open call, or for another price');
    END IF;
    IF (CASE e.kind WHEN 'void' THEN (e.main, e.delta, e.hits, e.tests, e.answer_hash) = (0, 0, 0, 0, '')
        ELSE encode(sha256(convert_to(answer, 'UTF8')), 'hex') = e.answer_hash END) IS NOT TRUE THEN
        PERFORM refuse('the entry is not that of this answer');
    END IF;
    UPDATE datasets SET spent_main = spent_main - e.back_main, spent_delta = spent_delta - e.back_delta,
        open_main = open_main - held.charged_main, open_delta = open_delta - held.charged_delta
    WHERE datasets.name = e.dataset;
    UPDATE analysts SET spent_main = spent_main - e.back_main, spent_delta = spent_delta - e.back_delta,
        open_main = open_main - held.charged_main, open_delta = open_delta - held.charged_delta
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

-- Appends one entry, if it continues the chain and the rules allow it to whoever is connected, and moves all totals; the
-- number of the transaction, by which it is known again.
CREATE FUNCTION append(e entries, answer text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    at chain;
    most CONSTANT bigint := 4611686018427387904;
BEGIN
    SELECT * INTO at FROM chain FOR UPDATE;
    IF (at.format = 1) IS NOT TRUE THEN
        PERFORM refuse('this ledger was moved, and nothing is charged here any more');
    END IF;
    IF (e.kind IN ('reserve', 'settle') AND e.analyst = session_user OR by_owner()) IS NOT TRUE THEN
        PERFORM refuse('this role may only reserve and settle, as the analyst of its own name');
    END IF;
    IF (e.number = at.entries + 1 AND e.hash = seal(at.head, e)) IS NOT TRUE THEN
        PERFORM refuse('the entry does not continue the chain');
    END IF;
    IF (least(e.main, e.delta, e.back_main, e.back_delta, e.hits, e.tests) >= 0
        AND greatest(e.main, e.delta, e.back_main, e.back_delta) <= most
        AND greatest(e.hits, e.tests) < 2147483648) IS NOT TRUE THEN
        PERFORM refuse('a number of the entry is out of range');
    END IF;
    INSERT INTO entries SELECT e.*;
    UPDATE chain SET entries = e.number, head = e.hash;
    CASE e.kind
        WHEN 'open' THEN PERFORM post_open(e);
        WHEN 'share' THEN PERFORM post_share(e);
        WHEN 'reserve' THEN PERFORM post_reserve(e);
        WHEN 'settle', 'void' THEN PERFORM post_close(e, answer);
        WHEN 'note' THEN PERFORM post_note(e);
    END CASE;
    RETURN pg_current_xact_id()::text::bigint;
END $$;

CREATE FUNCTION check_own(number bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF NOT by_owner() AND NOT EXISTS (SELECT FROM calls c WHERE c.number = check_own.number AND c.analyst = session_user) THEN
        PERFORM refuse('the secret belongs to a call of another analyst');
    END IF;
END $$;

-- A secret changes in a transaction that settles a call, and in no other.
CREATE FUNCTION check_settling() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM entries e JOIN chain c ON c.entries = e.number
    WHERE e.kind = 'settle' AND e.xmin = pg_current_xact_id()::xid;
    IF NOT FOUND THEN
        PERFORM refuse('secrets change with a call that is settled, and never by themselves');
    END IF;
END $$;

CREATE FUNCTION digest_for(number bigint, value bytea) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT encode(sha256(convert_to(number || ':', 'UTF8') || value), 'hex')
$$;

CREATE FUNCTION secret_of(number bigint) RETURNS TABLE (secret bytea, digest text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    IF EXISTS (SELECT FROM secrets s WHERE s.call = secret_of.number) THEN
        PERFORM check_own(secret_of.number);
    END IF;
    RETURN QUERY SELECT s.secret, s.digest FROM secrets s WHERE s.call = secret_of.number;
END $$;

CREATE FUNCTION digest_of(number bigint) RETURNS text
LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT AS $$
    SELECT digest FROM secret_of(number)
$$;

CREATE FUNCTION put_secret(number bigint, value bytea) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM check_own(put_secret.number), check_settling();
    PERFORM 1 FROM calls c WHERE c.number = put_secret.number AND c.state = 'settled';
    IF NOT FOUND THEN
        PERFORM refuse('only a settled call has a secret');
    END IF;
    INSERT INTO secrets VALUES (put_secret.number, value, digest_for(put_secret.number, value));
END $$;

CREATE FUNCTION drop_secret(number bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM check_own(drop_secret.number), check_settling();
    DELETE FROM secrets s WHERE s.call = drop_secret.number;
    RETURN FOUND;
END $$;

CREATE FUNCTION sealed() RETURNS boolean LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT AS $$
    SELECT (SELECT s.entries FROM seals s) = (SELECT c.entries FROM chain c)
        AND (SELECT s.secrets FROM seals s) = (SELECT coalesce(sum(imprint(digest)), 0) FROM secrets)
$$;

CREATE FUNCTION changed_secrets() RETURNS SETOF bigint LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT AS $$
    SELECT s.call FROM secrets s LEFT JOIN calls c ON c.number = s.call
    WHERE c.state IS DISTINCT FROM 'settled' OR s.digest IS DISTINCT FROM digest_for(s.call, s.secret)
    ORDER BY s.call
$$;

-- A role may call only what `roles` gives it.
DO $$ BEGIN
    EXECUTE format('REVOKE ALL ON ALL FUNCTIONS IN SCHEMA %I FROM PUBLIC', current_schema());
END $$;
