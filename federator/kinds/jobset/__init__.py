"""PinterestJobSet: many equal, independent jobs, each taking one numbered shard of the work."""
