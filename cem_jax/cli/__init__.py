"""The command line: one thin file per subcommand of `cem`."""
