"""How many copies fit, and what is left after what was given away."""
