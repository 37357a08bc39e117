"""Requests on resources: reading, writing, watching, discovery."""
