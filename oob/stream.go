package oob

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/goverbs/goverbs/rdmacm"
)

// leaveTimeout bounds the time of the last message on a stream.
const leaveTimeout = time.Second

// stream carries the messages of an attempt to connect, and shows later whether the peer is alive. One goroutine
// reads it, until it is closed.
type stream struct {
	io.ReadWriteCloser
	heard  chan heard    // messages of the set-up
	up     chan struct{} // closed when the set-up is over
	left   chan struct{} // closed when this end leaves
	ended  chan struct{} // closed when the goroutine has ended
	listen func(heard)   // called with what comes after the set-up

	writing sync.Mutex
	leaving sync.Once
}

// heard is a message, or the end of the stream.
type heard struct {
	*frame
	err error
}

func newStream(rwc io.ReadWriteCloser) *stream {
	s := &stream{ReadWriteCloser: rwc, heard: make(chan heard), up: make(chan struct{}), left: make(chan struct{}), ended: make(chan struct{})}
	go s.read()
	return s
}

func (s *stream) read() {
	defer close(s.ended)
	for {
		f, err := readFrame(s)
		select {
		case s.heard <- heard{f, err}:
		case <-s.up:
			s.listen(heard{f, err})
		case <-s.left:
			select {
			case <-s.up: // the peer may leave, too
				s.listen(heard{f, err})
			default:
			}
			err = cmp.Or(err, io.EOF)
		}
		if err != nil {
			break
		}
	}
	<-s.left
	_, _ = io.Copy(io.Discard, s) // closing a socket with unread data discards the data that the peer has not received
}

// readFrame reads a message.
func readFrame(r io.Reader) (*frame, error) {
	b := make([]byte, headerSize, 256)
	if n, err := io.ReadFull(r, b); err != nil {
		return nil, ended(n, err)
	}
	_, length, err := parseHeader(b)
	if err != nil {
		return nil, err
	}
	b = append(b, make([]byte, length)...)
	if n, err := io.ReadFull(r, b[headerSize:]); err != nil {
		return nil, ended(headerSize+n, err)
	}
	return parse(b)
}

// ended returns the error for a stream that ends after n bytes of a message.
func ended(n int, err error) error {
	if n > 0 && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)) {
		return fmt.Errorf("%w: it ended the stream after %d bytes of a message: %w", ErrProtocol, n, io.ErrUnexpectedEOF)
	}
	return fmt.Errorf("%w: the stream: %w", rdmacm.ErrDisconnected, err)
}

func (s *stream) send(f *frame) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if _, err := s.Write(f.bytes()); err != nil {
		return fmt.Errorf("%w: the stream: %w", rdmacm.ErrDisconnected, err)
	}
	return nil
}

// leave sends a last message and closes the stream, in the background. Later calls do nothing.
func (s *stream) leave(last *frame) {
	s.leaving.Do(func() {
		close(s.left)
		go func() {
			timer := time.AfterFunc(leaveTimeout, func() { _ = s.Close() })
			defer timer.Stop()
			if half, ok := s.ReadWriteCloser.(interface{ CloseWrite() error }); s.send(last) == nil && (!ok || half.CloseWrite() == nil) {
				<-s.ended // the peer closes its end, too
			}
			_ = s.Close()
		}()
	})
}
