package rounds

import (
	"errors"
	"time"
)

// A meter carries out rounds and notes what each step of them took, in units of
// its clock.
type meter struct {
	rings Rings
	clock func() int64
	costs map[string][]int64 // by measure
}

// time notes what a step took.
func (m *meter) time(measure string, step func() error) error {
	start := m.clock()
	err := step()
	took := m.clock() - start
	m.costs[measure] = append(m.costs[measure], took)
	return err
}

// lists does n rounds of each kind, after some to warm up.
func (m *meter) lists(list, n int) error {
	if err := m.both(list, n/10+1); err != nil {
		return err
	}
	return m.both(list, n)
}

func (m *meter) both(list, n int) error {
	m.costs = map[string][]int64{"poll_full": nil} // missed if it never went well
	for range n {
		if err := m.round(list, "post_send", m.rings.PostSend); err != nil {
			return err
		}
		if err := m.round(list, "post_send_inline", m.rings.PostInline); err != nil {
			return err
		}
	}
	return nil
}

func (m *meter) round(list int, measure string, post func(list int) error) error {
	if err := m.time("post_recv", func() error { return m.rings.PostRecv(list) }); err != nil {
		return err
	}
	if err := m.time(measure, func() error { return post(list) }); err != nil {
		return err
	}
	if err := m.rings.Doorbell(); err != nil {
		return err
	}
	if err := take(m.rings.TakeRecvs, Depth); err != nil {
		return err
	}
	for range grace {
		yield()
	}
	return m.poll(list)
}

// grace is how often the last send completions are waited for: on siw the peer
// may have the message before the kernel has noted that it is sent.
const grace = 20

// poll notes nothing when completions were missing.
func (m *meter) poll(list int) error {
	start := m.clock()
	n, err := m.rings.Poll(list)
	took := m.clock() - start
	switch {
	case err != nil:
		return err
	case n < Depth:
		return take(m.rings.TakeSends, Depth-n)
	}
	m.costs["poll_full"] = append(m.costs["poll_full"], took)
	return nil
}

// calls measures, n times, what is measured a call.
func (m *meter) calls(n int) error {
	m.costs = make(map[string][]int64)
	for range n {
		if err := m.time("poll_empty", m.rings.PollEmpty); err != nil {
			return err
		}
	}
	for range n {
		if err := m.time("arm", m.rings.Arm); err != nil {
			return err
		}
	}
	return nil
}

// patience is for what should take milliseconds.
const patience = 10 * time.Second

var errMissing = errors.New("completions are missing")

// take waits for n completions. It yields the processor instead of sleeping,
// because what Go does to put a thread to sleep and to wake it leaves the caches
// colder than what C does.
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
