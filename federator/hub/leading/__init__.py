"""Leading: the process that wires everything, the standby, and the turns of a new leader."""
