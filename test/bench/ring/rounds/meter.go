package rounds

import (
	"errors"
	"time"
)

// A meter runs rounds and records the duration of each step in ticks of its clock.
type meter struct {
	rings  Rings
	kinds  Kind // kinds below this one are measured
	clock  Clock
	device *process           // nil if the device is in the kernel
	costs  map[string][]int64 // by measure
}

// note records the duration of a step.
func (m *meter) note(measure string, took int64, err error) error {
	m.costs[measure] = append(m.costs[measure], took)
	return err
}

// lists runs n rounds of each kind, after some rounds to warm up.
func (m *meter) lists(list, n int) error {
	if err := m.both(list, n/10+1); err != nil {
		return err
	}
	return m.both(list, n)
}

func (m *meter) both(list, n int) error {
	m.costs = map[string][]int64{"poll_full": nil} // so that print reports it if no round succeeded
	for range n {
		for kind := range m.kinds {
			if err := m.round(kind, list); err != nil {
				return err
			}
		}
	}
	return nil
}

// round runs a round. It doesn't record the polls of writes, because only polling shows that they have
// completed.
func (m *meter) round(kind Kind, list int) error {
	m.device.stop()
	err := m.post(kind, list)
	m.device.goOn()
	if err == nil {
		err = m.rings.Doorbell()
	}
	switch {
	case err != nil:
		return err
	case kind >= Write:
		return take(m.rings.TakeSends, Depth)
	}
	if r, ok := m.rings.(RecvPoller); ok && m.kinds == Write {
		for range 10 * grace { // only polling shows that all have arrived
			yield()
		}
		if err := m.poll("poll_recv", r.PollRecv, m.rings.TakeRecvs, list); err != nil {
			return err
		}
	} else if err := take(m.rings.TakeRecvs, Depth); err != nil {
		return err
	}
	for range grace {
		yield()
	}
	return m.poll("poll_full", m.rings.Poll, m.rings.TakeSends, list)
}

func (m *meter) post(kind Kind, list int) error {
	if kind < Write {
		took, err := m.rings.PostRecv(list, m.clock)
		if err := m.note("post_recv", took, err); err != nil {
			return err
		}
	}
	took, err := m.rings.PostSend(kind, list, m.clock)
	return m.note(measures[kind], took, err)
}

// grace is the number of attempts to find the last send completions. On siw the peer may receive a
// message before the kernel writes the completion of the send.
const grace = 20

// poll polls a queue and records the duration, unless completions were missing.
func (m *meter) poll(measure string, poll func(list int, now Clock) (int, int64, error), rest func(atMost int) (int, error), list int) error {
	m.device.stop()
	n, took, err := poll(list, m.clock)
	m.device.goOn()
	if err == nil && n < Depth {
		return take(rest, Depth-n)
	}
	return m.note(measure, took, err)
}

// calls measures the operations that are reported per call, n times.
func (m *meter) calls(n int) error {
	m.costs = make(map[string][]int64)
	m.device.stop()
	defer m.device.goOn()
	for range n {
		took, err := m.rings.PollEmpty(m.clock)
		if err := m.note("poll_empty", took, err); err != nil {
			return err
		}
	}
	for range n {
		took, err := m.rings.Arm(m.clock)
		if err := m.note("arm", took, err); err != nil {
			return err
		}
	}
	return nil
}

// patience limits waits that should take milliseconds.
const patience = 10 * time.Second

var errMissing = errors.New("completions are missing")

// take waits for n completions. It yields the processor instead of sleeping, because Go runs more code
// than C to put a thread to sleep and to wake it, which leaves the caches colder.
func take(from func(atMost int) (int, error), n int) error {
	for end := time.Now().Add(patience); n > 0; {
		got, err := from(n)
		if err != nil {
			return err
		}
		if n -= got; got > 0 {
			continue
		}
		if time.Now().After(end) {
			return errMissing
		}
		yield()
	}
	return nil
}
