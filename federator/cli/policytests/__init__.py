"""Tests of policies on files: `federator test`."""
