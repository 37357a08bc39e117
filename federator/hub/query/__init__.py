"""The leader's query port: what users, gateway and dashboard ask the leading hub, with their own
rights."""
