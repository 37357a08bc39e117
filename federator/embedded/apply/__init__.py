"""Server-side apply and patches: who owns which field."""
