package main

// root is the table of commands. iproute2's come first, in its order: those
// that lead mean a beginning that others share.
func root() command {
	return command{
		names:   []string{"rdmalink"},
		summary: "what iproute2's rdma does, and tools to look at RDMA devices, to test and to measure them.",
		details: `
In a batch (-b) a line is a command, with options for itself if need be: dev
show -j. What follows # is a comment; a line goes on after a backslash at its
end; quotes hold blanks together. The first command that fails ends the batch,
unless -f is given.`,
		options: []option{
			{short: "-h", long: "--help", summary: "say what there is and how to use it", set: func(t *tool) { t.help = true }},
			{short: "-V", long: "--version", summary: "print the version", set: func(t *tool) { t.version = true }},
			{short: "-j", long: "--json", summary: "print JSON", set: func(t *tool) { t.JSON = true }},
			{short: "-p", long: "--pretty", summary: "with -j: on many lines, indented", set: func(t *tool) { t.Pretty = true }},
			{short: "-d", long: "--details", summary: "print more; given twice, also what the driver adds", set: func(t *tool) { t.Details++ }},
			{short: "-r", long: "--raw", summary: "print what the device itself holds of its objects", set: func(t *tool) { t.raw = true }},
			{short: "-o", long: "--oneline", summary: "print each object in one line, with a backslash for every line break", set: func(t *tool) { t.oneline = true }},
			{short: "-b", long: "--batch", value: "FILE", summary: "run the commands in FILE, one a line; - for standard input", take: (*tool).setBatch},
			{short: "-f", long: "--force", summary: "with -b: go on after a command that failed", set: func(t *tool) { t.force = true }},
		},
		sub: []command{
			devCommand(),
			linkCommand(),
			resourceCommand(),
			systemCommand(),
			statisticCommand(),
			monitorCommand(),
			addCommand(),
			delCommand(),
			showCommand(),
			devinfoCommand(),
			watchCommand(),
			doctorCommand(),
			qpCommand(),
			dumpCommand(),
			traceCommand(),
			pingCommand(),
			rpingCommand(),
			pingpongCommand(),
			cmCommand(),
			proxyCommand(),
			cpCommand(),
			perfCommand(),
			sandboxCommand(),
			completionCommand(),
			manCommand(),
			helpCommand(),
			versionCommand(),
		},
	}
}

// linkCommand is rdma link. Its commands are there without the word, too.
func linkCommand() command {
	return command{
		names:   []string{"link"},
		summary: "add, delete and show links; also without the word link",
		sub:     []command{addCommand(), delCommand(), showCommand(), helpCommand("link")},
		run:     showLinks,
	}
}
