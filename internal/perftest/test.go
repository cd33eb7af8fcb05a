package perftest

// Verb is the operation that a test measures.
type Verb uint8

// The verbs of perftest's programs.
const (
	Send   Verb = iota // ib_send_*
	Write              // ib_write_*
	Read               // ib_read_*
	Atomic             // ib_atomic_*
)

func (v Verb) String() string {
	if names := [...]string{"send", "write", "read", "atomic"}; int(v) < len(names) {
		return names[v]
	}
	return "unknown"
}

// Role is the end of a session. The client connects and sends first.
type Role uint8

// The two ends.
const (
	Client Role = iota
	Server
)

// Test has the options that both ends must be given alike. None of them is sent over
// the connection, and the order of the messages depends on all of them.
type Test struct {
	Verb          Verb
	Latency       bool // ib_*_lat; else ib_*_bw
	Bidirectional bool // -b, of bandwidth only
	AllSizes      bool // -a
	Duration      bool // -D
	CM            bool // -R: queue pairs connected by rdma_cm
	LIDOnly       bool // an InfiniBand port and no -x: addresses without GIDs
}

// String returns the name of perftest's program.
func (t Test) String() string {
	if t.Latency {
		return "ib_" + t.Verb.String() + "_lat"
	}
	return "ib_" + t.Verb.String() + "_bw"
}

// ServerIdle reports whether the server has nothing to do between Ready and
// Finish, because the client alone posts and the server's memory answers.
func (t Test) ServerIdle() bool {
	if t.Latency {
		return t.Verb == Read || t.Verb == Atomic
	}
	return t.Verb != Send && !t.Bidirectional
}

// swapsFirstTwice reports whether the program sends the address of the first QP once
// more before those of all QPs.
func (t Test) swapsFirstTwice() bool { return t.Latency && t.Verb != Send }
