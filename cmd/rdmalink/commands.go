package main

// root is the table of commands.
func root() command {
	return command{
		names:   []string{"rdmalink"},
		summary: "RDMA links without iproute2, and tools to try them.",
		options: []option{
			{short: "-h", long: "--help", summary: "say what there is and how to use it", set: func(t *tool) { t.help = true }},
			{short: "-V", long: "--version", summary: "print the version", set: func(t *tool) { t.version = true }},
			{short: "-j", long: "--json", summary: "print JSON", set: func(t *tool) { t.json = true }},
			{short: "-p", long: "--pretty", summary: "with -j: on many lines, indented", set: func(t *tool) { t.pretty = true }},
			{short: "-d", long: "--details", summary: "print more; given twice, also what the driver adds", set: func(t *tool) { t.details++ }},
			{short: "-r", long: "--raw", summary: "print what the device itself holds of its objects", set: func(t *tool) { t.raw = true }},
		},
		sub: []command{
			addCommand(),
			delCommand(),
			showCommand(),
			linkCommand(),
			resourceCommand(),
			rpingCommand(),
			pingpongCommand(),
			perfCommand(),
			helpCommand(),
			versionCommand(),
		},
	}
}

// linkCommand repeats the three link commands where iproute2 has them.
func linkCommand() command {
	return command{
		names:   []string{"link"},
		summary: "the same three, spelled as iproute2 does (rdma link add …)",
		sub:     []command{addCommand(), delCommand(), showCommand(), helpCommand("link")},
		run:     showLinks,
	}
}
