"""Commands of the submission gateway: its process, submissions, and its audit."""
