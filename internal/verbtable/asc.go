package verbtable

import (
	"io/fs"
	"strings"
)

// comparedWithC are the methods and commands, by their short names, in the recordings that
// libibverbs's requests are held to.
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
			// The table of package fakeverbs has one name for what goes by either of two.
			if call == "QUERY_DEVICE" && strings.Contains(fields, "in:") {
				call = "EX_CMD_QUERY_DEVICE"
			}
			all[call] = true
		}
	}
	return all, nil
}
