package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// netnsDir is where ip netns add keeps its names.
const netnsDir = "/run/netns"

// openNetns finds a network namespace by a path, a name or a process.
//
// C: netns_get_fd
func openNetns(word string) (*os.File, error) {
	if strings.Contains(word, "/") {
		return os.Open(word)
	}
	f, err := os.Open(filepath.Join(netnsDir, word))
	if !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	if _, notNumber := strconv.ParseUint(word, 10, 31); notNumber != nil {
		return nil, fmt.Errorf("no network namespace %q (%s); it is one of these names, a path, or the number of a process", word, netnsNames())
	}
	f, err = os.Open(filepath.Join("/proc", word, "ns/net"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("no network namespace %q: no process has that number, and there is none of that name (%s)", word, netnsNames())
	}
	return f, err
}

func netnsNames() string {
	names := netnsEntries()
	if len(names) == 0 {
		return netnsDir + " holds none"
	}
	return netnsDir + " holds: " + strings.Join(names, ", ")
}
