"""Objects, versions and the words of refusals."""
