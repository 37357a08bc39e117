"""Jobs in time: runs of recurring objects, and the deletion of job sets that ended long ago."""
