package pingpong

import (
	"fmt"
	"os"
)

// fillPingpong writes the content of a buffer before anything is received.
func fill(b []byte) {
	for i := range b {
		b[i] = 0x7b
	}
}

// markPingpong writes the client's message for -c: as C, 0 at the start of each
// page.
func mark(message []byte) {
	for i := 0; i < len(message); i += os.Getpagesize() {
		message[i] = 0
	}
}

// check verifies the client's pattern in the last message received: at the server
// the one that the client sent, at the client the one that the server returned. C
// only prints an error; here the program fails as well.
func (r *report) check(message []byte) error {
	bad := 0
	for i := 0; i < len(message); i += os.Getpagesize() {
		if message[i] == 0 {
			continue
		}
		bad++
		if err := r.print("invalid data in page %d\n", i/os.Getpagesize()); err != nil {
			return err
		}
	}
	if bad > 0 {
		return fmt.Errorf("-c: invalid data in %d of %d pages; the client needs -c as well", bad, (len(message)-1)/os.Getpagesize()+1)
	}
	return nil
}
