"""The report of a simulation: a sentence, tables for a terminal, a page, JSON and CSV."""
