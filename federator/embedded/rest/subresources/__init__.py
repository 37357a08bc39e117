"""Requests on parts of an object, and questions that are posted."""
