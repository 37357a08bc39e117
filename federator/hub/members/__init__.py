"""The members, one object each: connection, reachability, identity, trust and conditions."""
