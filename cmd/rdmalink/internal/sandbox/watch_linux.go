package sandbox

import (
	"fmt"
	"slices"
	"strings"
)

// opened records an open device, so that the errors of its programs are reported at the
// end.
func (s *supervisor) opened(m *machine, d *device) {
	// Polled registers are reported late, see registers.
	d.kernel.ERDMA.Late, d.kernel.ERDMA.OldRecords = !s.trap, true
	d.kernel.MLX5.Late, d.kernel.MLX5.OldBytes = !s.trap, true
	d.kernel.MLX5.StaticUARs, d.kernel.MLX5.CQEVersion0, d.kernel.MLX5.InlineHeaders = s.old, s.old, s.old
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

// look passes all stores so far to the devices. A card would have seen them before the
// call that the kernel carries out next.
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
