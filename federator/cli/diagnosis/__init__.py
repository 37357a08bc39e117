"""What is wrong with an installation: `federator doctor`, and an archive for support."""
