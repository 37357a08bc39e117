"""One member each: its connection, reachability, identity, trust and conditions."""
