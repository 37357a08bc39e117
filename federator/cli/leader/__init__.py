"""Commands that ask the hub that leads, and how it is found."""
