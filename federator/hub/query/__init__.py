"""The leader's query port: what people, gateway and dashboard ask the leading hub for, with their
own rights."""
