"""Security: hardening checks, credentials, seals, and decisions without a valid seal."""
