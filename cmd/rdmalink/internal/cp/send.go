package cp

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/goverbs/goverbs/rsocket"
)

// copied describes a completed transfer, as -j prints it.
type copied struct {
	Peer    string  `json:"peer"`
	Name    string  `json:"name"` // at the server
	Bytes   int64   `json:"bytes"`
	Seconds float64 `json:"seconds"`
	SHA256  string  `json:"sha256"`
}

// piece is the size of the buffer for reads from a file or a connection.
const piece = 256 << 10

// sendFile runs the command with FILE.
func (c *command) sendFile(ctx context.Context) error {
	f, err := os.Open(c.file)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", c.file)
	}
	conn, err := rsocket.Dial(ctx, net.JoinHostPort(c.host, c.port))
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	r, err := c.sendTo(conn, f, info)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%s: interrupted", c.file)
	case err != nil:
		return fmt.Errorf("%s to %s: %w", c.file, conn.RemoteAddr(), err)
	}
	c.print(r)
	// The server has replied, so it has the whole file. Shutdown waits until the server has
	// seen an orderly end. Without that, the server would report a failure.
	_ = conn.Shutdown(ctx)
	return nil
}

// sendTo runs the protocol of rcopy.
func (c *command) sendTo(to net.Conn, f io.Reader, info os.FileInfo) (*copied, error) {
	start := time.Now()
	conn := c.timed(to)
	conn.message()
	// The name ends with at least one zero.
	name := make([]byte, (len(c.name)+8)&^7)
	copy(name, c.name)
	if err := send(conn, header{Command: cmdOpen, Data: regular | uint32(info.Mode().Perm())}, name); err != nil {
		return nil, err
	}
	conn.message()
	if err := answered(conn, cmdOpen); err != nil {
		return nil, fmt.Errorf("open %q there: %w", c.name, err)
	}
	size := binary.NativeEndian.AppendUint64(nil, uint64(info.Size()))
	conn.message()
	if err := send(conn, header{Command: cmdWrite}, size); err != nil {
		return nil, err
	}
	conn.content()
	p := newProgress(c.Stderr, c.name, info.Size())
	defer p.stop()
	sum := sha256.New()
	n, err := io.CopyBuffer(io.MultiWriter(conn, sum, p), io.LimitReader(f, info.Size()), make([]byte, piece))
	if err == nil && n < info.Size() {
		err = fmt.Errorf("the file shrank: %d bytes of %d", n, info.Size())
	}
	var broken *net.OpError
	if err != nil && (!errors.As(err, &broken) || errors.Is(err, os.ErrDeadlineExceeded)) {
		return nil, err
	}
	// A server that fails sends the reason before it disconnects.
	conn.message()
	if refusal := answered(conn, cmdWrite); refusal != nil {
		return nil, fmt.Errorf("write at the server: %w", refusal)
	}
	r := &copied{conn.RemoteAddr().String(), c.name, n, time.Since(start).Seconds(), hex.EncodeToString(sum.Sum(nil))}
	conn.message()
	if err := send(conn, header{Command: cmdClose}, nil); err != nil {
		return nil, err
	}
	conn.message()
	return r, answered(conn, cmdClose)
}

// regular is the file type of a regular file in a mode.
const regular = 0o100000
