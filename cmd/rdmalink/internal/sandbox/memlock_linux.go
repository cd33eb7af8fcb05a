package sandbox

import (
	"bytes"
	"fmt"
	"math"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/internal/fakeverbs"
)

// locked counts the bytes that the regions of a process pin, with all devices that it has opened.
type locked struct {
	openings int
	bytes    int64
}

// lockedBy returns the count of the process that opens a device. Until unlocked is called once for each call, it stays
// the same.
func (s *supervisor) lockedBy(owner *process) *locked {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.locked[owner.id]
	if l == nil {
		l = &locked{}
		s.locked[owner.id] = l
	}
	l.openings++
	return l
}

func (s *supervisor) unlocked(owner *process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.locked[owner.id]; l != nil {
		if l.openings--; l.openings == 0 {
			delete(s.locked, owner.id)
		}
	}
}

// pin counts memory of a region that the calling process registers, or that ends if it is negative.
func (d *device) pin(bytes int64) error {
	d.supervisor.mu.Lock()
	defer d.supervisor.mu.Unlock()
	if bytes > 0 && !d.caller.mayLock() {
		if err := fakeverbs.CheckMemlock(d.locked.bytes+bytes, d.caller.memlock()); err != nil {
			return err
		}
	}
	d.locked.bytes += bytes
	return nil
}

// memlock returns RLIMIT_MEMLOCK of the process, in bytes. prlimit(2) would need a right for processes of other users.
func (p *process) memlock() int64 {
	for line := range bytes.Lines(p.readFile("limits")) {
		if rest, ok := bytes.CutPrefix(line, []byte("Max locked memory")); ok {
			soft, _, _ := bytes.Cut(bytes.TrimSpace(rest), []byte(" "))
			if n, err := strconv.ParseInt(string(soft), 10, 64); err == nil {
				return n
			}
		}
	}
	return math.MaxInt64
}

// mayLock reports whether the process has CAP_IPC_LOCK. That of a user namespace of its own does not count.
func (p *process) mayLock() bool {
	const initialNamespace = "user:[4026531837]" // PROC_USER_INIT_INO
	var effective uint64
	for line := range bytes.Lines(p.readFile("status")) {
		if _, err := fmt.Sscanf(string(line), "CapEff: %x", &effective); err == nil {
			break
		}
	}
	return effective&(1<<unix.CAP_IPC_LOCK) != 0 && p.link("ns/user") == initialNamespace
}
