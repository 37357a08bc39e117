"""What an API server refuses: rules of kinds, schemas and CEL."""
