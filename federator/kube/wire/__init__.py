"""Requests and answers: addresses, HTTP, paths, decoding, discovery, watch streams."""
