"""Manifests that people have become manifests of ours."""
