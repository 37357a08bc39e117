"""How much an account may hold, and what is wrong with what was written of it."""
