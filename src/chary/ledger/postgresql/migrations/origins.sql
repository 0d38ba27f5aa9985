ALTER TABLE entries ADD COLUMN origin text COLLATE "C" NOT NULL DEFAULT '';

-- The hash of an entry, as every ledger makes it: an empty origin is left out, so that older entries keep their hashes.
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
    RETURN encode(sha256(convert_to(previous || '[' || words || ']', 'UTF8')), 'hex');
END $$;

-- What is asked through a token is the owner's to say: the service's. A role of an analyst has no tokens.
CREATE FUNCTION check_origin() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF NEW.origin <> '' AND NOT by_owner() THEN
        PERFORM refuse('only the owner says what an entry was asked through');
    END IF;
    RETURN NEW;
END $$;
REVOKE ALL ON FUNCTION check_origin() FROM PUBLIC;

CREATE TRIGGER origins_are_the_owner_s BEFORE INSERT ON entries FOR EACH ROW EXECUTE FUNCTION check_origin();
