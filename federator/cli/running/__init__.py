"""Commands that go on running: hub, member, sandbox, demo."""
