package cp

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"math"
	"net"
	"os"
	"path"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

// receiver takes the files of one client, one after the other.
type receiver struct {
	*command
	conn  *timedConn
	root  *os.Root
	began time.Time

	name string   // of the file that is open
	part *os.File // holds the content until it is complete; nil if no file is open
	temp string   // its name
}

// run receives files until the client leaves.
func (r *receiver) run() error {
	defer r.drop()
	for {
		r.conn.message()
		h, body, err := receive(r.conn)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		err = r.do(h, body)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return err // and an answer would take as long again
		}
		r.conn.message()
		if sendErr := send(r.conn, header{Command: h.Command | cmdAnswer, Data: status(err), ID: h.ID}, nil); err == nil {
			err = sendErr
		}
		if err != nil {
			return err
		}
	}
}

func (r *receiver) do(h header, body []byte) error {
	switch h.Command {
	case cmdOpen:
		return r.open(body, fs.FileMode(h.Data).Perm())
	case cmdWrite:
		if len(body) != 8 {
			return syscall.EINVAL
		}
		return r.write(binary.NativeEndian.Uint64(body))
	case cmdClose:
		r.drop()
		return nil
	}
	return syscall.EINVAL
}

// open creates a temporary file beside the named file. It replaces the named file when its
// content is complete. So the server never exposes an incomplete file, and never writes to
// anything but a file. root refuses names that lead out of the directory.
func (r *receiver) open(name []byte, mode fs.FileMode) (err error) {
	if r.part != nil {
		return syscall.EBUSY
	}
	name, _, _ = bytes.Cut(name, []byte{0})
	if len(name) == 0 || len(name) > mostName {
		return syscall.EINVAL
	}
	r.began, r.name = time.Now(), string(name)
	switch info, err := r.root.Lstat(r.name); {
	case err == nil && info.IsDir():
		return syscall.EISDIR
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	r.temp = path.Join(path.Dir(r.name), ".rdmalink-"+rand.Text())
	r.part, err = r.root.OpenFile(r.temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	return err
}

// write receives content.
func (r *receiver) write(size uint64) error {
	switch {
	case r.part == nil:
		return syscall.EBADF
	case size > math.MaxInt64:
		return syscall.EFBIG
	}
	defer r.drop()
	r.conn.content()
	sum := sha256.New()
	n, err := io.CopyBuffer(io.MultiWriter(r.part, sum), io.LimitReader(r.conn, int64(size)), make([]byte, piece))
	if err == nil && uint64(n) < size {
		err = io.ErrUnexpectedEOF
	}
	if err == nil {
		err = r.part.Close()
	}
	if err == nil {
		err = r.root.Rename(r.temp, r.name)
	}
	if err != nil {
		return err
	}
	r.print(&copied{r.conn.RemoteAddr().String(), r.name, n, time.Since(r.began).Seconds(), hex.EncodeToString(sum.Sum(nil))})
	return nil
}

// drop closes the open file, and removes it if it is incomplete.
func (r *receiver) drop() {
	if r.part == nil {
		return
	}
	_ = r.part.Close()
	_ = r.root.Remove(r.temp) // unless it has been renamed
	r.part = nil
}

// status returns the errno for the reply to a client.
func status(err error) uint32 {
	var errno syscall.Errno
	var pathError *fs.PathError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &errno):
		return uint32(errno)
	case errors.As(err, &pathError): // root's, about a name that leads out
		return uint32(syscall.EACCES)
	}
	return uint32(syscall.EIO)
}

// serve receives files from any number of clients until ctx ends.
func (c *command) serve(ctx context.Context, l net.Listener, root *os.Root) error {
	return cli.AcceptAll(ctx, l, c.clients,
		func(ctx context.Context, conn net.Conn) { c.client(ctx, conn, root) },
		func(err error) { c.complain("%s", cli.PlainLine(err)) })
}

// client serves one of them.
func (c *command) client(ctx context.Context, conn net.Conn, root *os.Root) {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	r := &receiver{command: c, conn: c.timed(conn), root: root}
	err := r.run()
	if ctx.Err() != nil && errors.Is(err, net.ErrClosed) {
		return // the user's wish, or the listener failed, which has been said
	}
	if err != nil {
		c.complain("%q from %s: %s", r.name, conn.RemoteAddr(), cli.PlainLine(err))
	}
}

// print prints the result of a file.
func (c *command) print(r *copied) {
	c.printing.Lock()
	defer c.printing.Unlock()
	if c.JSON {
		_ = c.WriteJSON(r)
		return
	}
	way := "to"
	if c.file == "" {
		way = "from"
	}
	_ = c.Printf("%q %s %s: %d bytes in %.2f seconds = %.2f Gb/sec, sha256 %s\n",
		r.Name, way, r.Peer, r.Bytes, r.Seconds, float64(r.Bytes)*8/1e9/r.Seconds, r.SHA256)
}

func (c *command) complain(format string, args ...any) {
	c.printing.Lock()
	defer c.printing.Unlock()
	c.Note(format, args...)
}
