//go:build linux

package rig

import (
	"encoding/binary"
	"fmt"
	"io"
	"sync"
	"time"
)

// Job is the job of the guest's pid 1, as JSON in the initramfs.
type Job struct {
	Args    []string
	Dir     string
	Env     []string
	Timeout time.Duration
	Insmod  []string // modules in the initramfs, in the order to load them
	Modules string   // the directory that becomes /lib/modules/RELEASE
	Load    []string // modules to load by name once the root is there
	UML     bool     // the machine is not QEMU's
	CPUMHz  string   // with UML, the clock of the host's CPU

	// ShortSlices is for tests: processes that poll share a CPU without waiting for
	// its tick. Measurements keep the scheduler as it is.
	ShortSlices bool
}

// Where the initramfs holds the [Job] and this program.
const (
	JobFile  = "/job.json"
	InitFile = "/init"
)

// Kinds of frames. Everything the guest says goes through one serial port, so
// that the exit code cannot overtake the output.
const (
	FrameReady  = 'r' // the machine is up, the command starts
	FrameStdout = 'o'
	FrameStderr = 'e'
	FrameExit   = 'x' // payload: the exit code in decimal
	FrameFailed = 'f' // payload: why the command was not run
)

const maxFrame = 64 << 10

// FrameWriter writes frames; it is safe for concurrent use.
type FrameWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func NewFrameWriter(w io.Writer) *FrameWriter { return &FrameWriter{w: w} }

// Write sends one frame of at most 64 KiB.
func (f *FrameWriter) Write(kind byte, payload []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	buf := binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(payload)))
	_, err := f.w.Write(append(buf, payload...))
	return err
}

// readFrame returns io.EOF at the end of the stream, between frames only.
func readFrame(r io.Reader) (kind byte, payload []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > maxFrame {
		return 0, nil, fmt.Errorf("frame of %d bytes from the guest, at most %d expected", n, maxFrame)
	}
	payload = make([]byte, n)
	if _, err := io.ReadFull(r, payload); err != nil {
		return 0, nil, fmt.Errorf("frame cut off: %w", io.ErrUnexpectedEOF)
	}
	return head[0], payload, nil
}
