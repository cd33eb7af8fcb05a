//go:build linux

package rig

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// early are the modules that the guest needs before it can see the host's
// root; built in where the kernel is new enough.
var early = []string{"virtio_pci", "virtio_console", "9pnet_virtio", "9p", "overlay"}

// late lists the modules that the guest may load from there on, by name, by alias or through
// the kernel's own request. ib_uverbs and rdma_ucm are loaded at boot; siw and
// rdma_rxe are left to be asked for, as on a real machine.
var late = []string{
	"ib_uverbs", "ib_umad", "rdma_ucm", "rdma_rxe",
	"dummy", "veth", "bridge", "8021q", "macvlan", "bonding", "sch_netem",
}

// native are siw and gvmovable, and the checksums that it and rxe ask for; newer kernels have
// those in a library that is built in.
var native = []string{"siw", movableName, "crc32_generic", "crc32c_generic", "crc32_pclmul", "crc32c_intel", "libcrc32c"}

// wanted are the modules that a series has to have.
func wanted(series string) []string {
	if foreign[series] != "" {
		return slices.Concat(early, late)
	}
	return slices.Concat(early, late, native)
}

// modules is modules.dep: for each module's path the paths it depends on.
type modules struct {
	deps map[string][]string
	path map[string]string // by name, with _ for -
}

func parseModulesDep(text string) modules {
	m := modules{deps: map[string][]string{}, path: map[string]string{}}
	for line := range strings.Lines(text) {
		file, deps, ok := strings.Cut(line, ":")
		if !ok {
			continue
		}
		m.deps[file] = strings.Fields(deps)
		m.path[moduleName(file)] = file
	}
	return m
}

// moduleName is what lsmod calls a module file.
func moduleName(file string) string {
	name, _, _ := strings.Cut(path.Base(file), ".ko")
	return strings.ReplaceAll(name, "-", "_")
}

// order lists the files of the named modules and all they need, each after its
// dependencies. A name without a file is returned in absent: built in, or not
// part of this kernel.
func (m modules) order(names []string) (files, absent []string) {
	var add func(file string)
	add = func(file string) {
		if slices.Contains(files, file) {
			return
		}
		for _, d := range m.deps[file] {
			add(d)
		}
		if !slices.Contains(files, file) {
			files = append(files, file)
		}
	}
	for _, n := range names {
		if file, ok := m.path[n]; ok {
			add(file)
		} else {
			absent = append(absent, n)
		}
	}
	return files, absent
}

// required fails for a module that is neither a file nor built in.
func (m modules) required(names []string, builtin string) error {
	_, absent := m.order(names)
	b := parseModulesDep(strings.ReplaceAll(builtin, "\n", ":\n"))
	for _, n := range absent {
		if _, ok := b.path[n]; !ok {
			return fmt.Errorf("the kernel package has no module %s", n)
		}
	}
	return nil
}
