-- The basic account of a dataset: the pure epsilons of all calls. Where its capacity is 0 there is none.
ALTER TABLE entries ADD COLUMN basic bigint NOT NULL DEFAULT 0;
ALTER TABLE datasets ADD COLUMN capacity_basic bigint NOT NULL DEFAULT 0;
ALTER TABLE datasets ADD COLUMN spent_basic bigint NOT NULL DEFAULT 0;
-- 1 once the main account has ended, and every call must fit into the basic one.
ALTER TABLE datasets ADD COLUMN alone bigint NOT NULL DEFAULT 0;

DO $$
DECLARE
    held text;
BEGIN
    FOR held IN SELECT conname FROM pg_constraint WHERE conrelid = 'datasets'::regclass AND contype = 'c'
    LOOP
        EXECUTE format('ALTER TABLE datasets DROP CONSTRAINT %I', held);
    END LOOP;
END $$;
ALTER TABLE datasets ADD CHECK (0 <= open_main AND open_main <= spent_main);
ALTER TABLE datasets ADD CHECK (0 <= open_delta AND open_delta <= spent_delta AND spent_delta <= capacity_delta);
ALTER TABLE datasets ADD CHECK (
    CASE WHEN alone = 0 THEN spent_main <= capacity_main ELSE capacity_basic > 0 AND spent_basic <= capacity_basic END);
ALTER TABLE datasets ADD CHECK (
    alone IN (0, 1) AND 0 <= spent_basic AND spent_basic <= CASE capacity_basic WHEN 0 THEN 0 ELSE capacity_basic + 1 END);

-- The hash of an entry, as every ledger makes it: an empty origin and a basic part of 0 are left out.
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
    RETURN encode(sha256(convert_to(previous || '[' || words || ']', 'UTF8')), 'hex');
END $$;

CREATE OR REPLACE FUNCTION post_open(e entries) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO datasets
    VALUES (e.dataset, e.body::json ->> 0, e.body::json ->> 1, e.main, e.delta, 0, 0, 0, 0, 0, e.basic, 0, 0);
END $$;

-- The rule of admission is that of `chary.amounts.Accounts`. A call that does not fit into the basic account closes it:
-- it then holds one step more than its capacity. One that fits into that alone ends the main account. A cap counts main
-- and delta, so that the main account alone admits what an analyst asks who has one.
CREATE OR REPLACE FUNCTION post_reserve(e entries) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF (e.call = e.number AND (e.back_main, e.back_delta, e.hits, e.tests, e.answer_hash) = (0, 0, 0, 0, '')) IS NOT TRUE THEN
        PERFORM refuse('the entry is no reservation');
    END IF;
    PERFORM unanswered(e, e.request);
    UPDATE datasets SET spent_main = spent_main + e.main, spent_delta = spent_delta + e.delta,
        open_main = open_main + e.main, open_delta = open_delta + e.delta, spent_basic = spent_basic + e.basic,
        alone = CASE WHEN capacity_basic > 0 AND e.main > capacity_main - spent_main THEN 1 ELSE alone END
    WHERE name = e.dataset AND e.delta <= capacity_delta - spent_delta
        AND e.basic <= CASE capacity_basic WHEN 0 THEN 0 ELSE capacity_basic + 1 - spent_basic END
        AND CASE WHEN alone = 0 AND e.main <= capacity_main - spent_main THEN TRUE
            ELSE capacity_basic > 0 AND e.basic <= capacity_basic - spent_basic AND e.main <= 4611686018427387904 - spent_main
                AND (e.basic = 0 OR NOT EXISTS (SELECT 1 FROM analysts
                    WHERE analysts.dataset = e.dataset AND analysts.analyst = e.analyst AND cap_main IS NOT NULL))
        END;
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

-- Epsilons are charged hit or miss, so only a call that never ran gives them back, to an account that is not closed.
CREATE FUNCTION give_basic_back() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    UPDATE datasets SET spent_basic = spent_basic - (SELECT basic FROM entries WHERE number = NEW.number)
    WHERE name = NEW.dataset AND spent_basic <= capacity_basic;
    RETURN NEW;
END $$;
REVOKE ALL ON FUNCTION give_basic_back() FROM PUBLIC;

CREATE TRIGGER epsilons_come_back AFTER UPDATE ON calls FOR EACH ROW
    WHEN (OLD.state = 'reserved' AND NEW.state = 'voided') EXECUTE FUNCTION give_basic_back();

-- Of the entries that open or reserve alone.
CREATE FUNCTION check_basic() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF (NEW.basic = 0 OR (NEW.kind IN ('open', 'reserve') AND NEW.basic > 0 AND NEW.basic < 4611686018427387904)) IS NOT TRUE THEN
        PERFORM refuse('a number of the entry is out of range');
    END IF;
    RETURN NEW;
END $$;
REVOKE ALL ON FUNCTION check_basic() FROM PUBLIC;

CREATE TRIGGER basic_parts_are_of_charges BEFORE INSERT ON entries FOR EACH ROW EXECUTE FUNCTION check_basic();
