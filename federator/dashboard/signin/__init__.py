"""How people sign in, and what their browsers send."""
