"""Server-side apply and patches: the field managers and the fields that each owns."""
