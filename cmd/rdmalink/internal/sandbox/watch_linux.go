package sandbox

import (
	"fmt"
	"slices"
	"strings"

	fakeerdma "github.com/goverbs/goverbs/internal/fakeverbs/erdma"
	fakemlx5 "github.com/goverbs/goverbs/internal/fakeverbs/mlx5"
)

// opened has an opening be recorded, and the device be asked at the end for what its
// programs did wrong.
func (s *supervisor) opened(m *machine, d *device) {
	// Polled registers tell late, see registers.
	if o := fakeerdma.OptionsOf(d.kernel); o != nil {
		o.Late, o.OldRecords = !s.trap, true
	}
	if o := fakemlx5.OptionsOf(d.kernel); o != nil {
		o.Late, o.OldBytes = !s.trap, true
		o.StaticUARs, o.CQEVersion0, o.InlineHeaders = s.old, s.old, s.old
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m.opened = d.kernel
	s.openings = append(s.openings, d)
	if s.recorder != nil {
		s.recorder.Attach(d.kernel)
	}
}

func (s *supervisor) forget(d *device) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.openings = slices.DeleteFunc(s.openings, func(other *device) bool { return other == d })
}

// look tells the devices of all stores so far. A card would have seen them before it sees
// the call that the kernel carries out next.
func (s *supervisor) look() {
	s.mu.Lock()
	openings := slices.Clone(s.openings)
	s.mu.Unlock()
	for _, d := range openings {
		d.registers.look()
	}
}

// violations returns an error that names each misuse of a device, or nil.
func (s *supervisor) violations() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var different []string
	times := make(map[string]int)
	for _, m := range s.hosts {
		if m.opened == nil {
			continue
		}
		for _, v := range m.opened.Violations() {
			v = m.device.Name + ": " + v
			if times[v]++; times[v] == 1 {
				different = append(different, v)
			}
		}
	}
	if len(different) == 0 {
		return nil
	}
	for i, v := range different {
		if times[v] > 1 {
			different[i] = fmt.Sprintf("%s (%d times)", v, times[v])
		}
	}
	return fmt.Errorf("a device was used as it must not be:\n%s", strings.Join(different, "\n"))
}
