"""The commands: each a thin call of a documented function; modules that a command needs are imported when it runs."""
