"""Tokens that OpenID Connect issuers sign: the key of a signature, and what they say about the
caller."""
