package verbtable

import (
	"fmt"
	"io/fs"
	"strings"
)

const head = `# The verbs, and their Go calls

Written by internal/verbtable from its tables and from the code: change those, and run ` + "`go generate ./internal/verbtable`" + `. Where the column Go is
empty the last one says why. Calls without a package are of ` + "`uverbs`" + ` or ` + "`verbs`" + `.

## The kernel's methods

What Linux gives user space, by the names of its headers. siw and rxe are the drivers of Linux 6.12 that have it, as a kernel test checks; fake is the kernel
for unit tests. What neither driver has, no kernel has checked: it is tested on the fake, on whose mlx5 device rdma-core's own programs and tests run too (make sandbox). As C says that the request of the Go call equals that of the C call in attributes, lengths and
values, but for what ` + "`libibverbsDiffers`" + ` in cmd/rdmalink/internal/sandbox has with the reasons: test/sandbox/requests.c is compared with uverbs/requests_test.go.

`

const middle = `
Write commands came before the ioctl interface, and go by INVOKE_WRITE. Most have an ioctl method that does the same, and goverbs uses that.

`

const functions = `
## libibverbs's functions

Those that need a device. The ` + "`C:`" + ` lines of the packages' documentation name them too.

`

const chapter = `
## The specification's verbs

Chapter 11 of the InfiniBand Architecture Specification, volume 1.

`

// Page returns the text of docs/verbs.md. top is the module's root.
func Page(top fs.FS) (string, error) {
	fake, err := fs.Sub(top, "internal/fakeverbs")
	if err != nil {
		return "", err
	}
	faked, err := Mentioned(fake)
	if err != nil {
		return "", err
	}
	asC, err := comparedWithC(top)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(head)
	methodTable(&b, faked, asC, false)
	b.WriteString(middle)
	methodTable(&b, faked, asC, true)
	b.WriteString(functions)
	b.WriteString("| C | Go | |\n|---|---|---|\n")
	for _, f := range Functions() {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", f.Name, calls(f.Go), f.Note)
	}
	b.WriteString(chapter)
	b.WriteString("| verb | Go | C | |\n|---|---|---|---|\n")
	for _, v := range Chapter11() {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", v.Name, calls(v.Go), v.C, v.Note)
	}
	return b.String(), nil
}

func methodTable(b *strings.Builder, faked, asC map[string]bool, write bool) {
	b.WriteString("| Linux | Go | C | siw | rxe | fake | as C | |\n|---|---|---|---|---|---|---|---|\n")
	for _, m := range Methods() {
		if m.Write() == write {
			fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %s | %s |\n", m.short(), calls(m.Go), m.C,
				mark(strings.Contains(m.Drivers, "siw")), mark(strings.Contains(m.Drivers, "rxe")), mark(faked[m.Name]), mark(asC[m.short()] && len(m.Go) > 0), m.Note)
		}
	}
}

// short returns the name without its prefix.
func (m *Method) short() string {
	for _, prefix := range []string{"UVERBS_METHOD_", "IB_USER_VERBS_CMD_", "IB_USER_VERBS_"} {
		if s, ok := strings.CutPrefix(m.Name, prefix); ok {
			return s
		}
	}
	return m.Name
}

func calls(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "`" + strings.Join(names, "`, `") + "`"
}

func mark(has bool) string {
	if has {
		return "yes"
	}
	return ""
}

// comparedWithC returns the short names of the methods and commands in the recordings with
// which libibverbs's requests are compared.
func comparedWithC(top fs.FS) (map[string]bool, error) {
	files, err := fs.Glob(top, "uverbs/testdata/requests-*.rec")
	if err != nil {
		return nil, err
	}
	all := make(map[string]bool)
	for _, file := range files {
		text, err := fs.ReadFile(top, file)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(text)) {
			_, rest, _ := strings.Cut(line, "asks.")
			call, fields, _ := strings.Cut(rest, " ")
			// Package fakeverbs has one name for two commands.
			if call == "QUERY_DEVICE" && strings.Contains(fields, "in:") {
				call = "EX_CMD_QUERY_DEVICE"
			}
			all[call] = true
		}
	}
	return all, nil
}
