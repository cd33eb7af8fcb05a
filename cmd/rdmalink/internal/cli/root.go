package cli

// Root returns the command rdmalink with the given sub-commands, followed by those
// of this package. The order decides between commands that have Leads set.
func Root(sub ...Command) Command {
	return Command{
		Names:   []string{"rdmalink"},
		Summary: "iproute2's rdma command, and tools to inspect, test and measure RDMA devices.",
		Details: `
Each line of a batch (-b) is a command, possibly with options of its own: dev
show -j. # begins a comment; a backslash at the end of a line continues it; quotes
enclose words with blanks. The first command that fails ends the batch, unless -f
is given.`,
		Options: GlobalOptions(),
		Sub:     append(sub, CompletionCommand(), ManCommand(), HelpCommand(), VersionCommand()),
	}
}
