package main

// root is the table of commands.
func root() command {
	return command{
		names:   []string{"rdmalink"},
		summary: "RDMA links without iproute2, and tools to try them.",
		options: []option{
			{"-h", "--help", "say what there is and how to use it", func(t *tool) { t.help = true }},
			{"-V", "--version", "print the version", func(t *tool) { t.version = true }},
			{"-j", "--json", "print JSON", func(t *tool) { t.json = true }},
			{"-p", "--pretty", "with -j: on many lines, indented", func(t *tool) { t.pretty = true }},
			{"-d", "--details", "print more; given twice, also what the driver adds", func(t *tool) { t.details++ }},
			{"-r", "--raw", "print what the device itself holds of its objects", func(t *tool) { t.raw = true }},
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
