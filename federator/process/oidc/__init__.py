"""Tokens that OpenID Connect issuers sign: whose key signed them, and what they say about the
caller."""
