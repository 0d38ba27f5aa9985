"""An auditor: samples transcripts on two neighbours and shows how private a call is at most."""
