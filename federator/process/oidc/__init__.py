"""Tokens that OpenID Connect issuers sign: which key signed them, and what they say about the
caller."""
