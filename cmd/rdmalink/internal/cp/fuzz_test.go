package cp

import (
	"bytes"
	"encoding/binary"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

// stream is a connection whose peer has sent some bytes and left.
type stream struct {
	net.Conn
	in, out bytes.Buffer
}

func (s *stream) Read(b []byte) (int, error)  { return s.in.Read(b) }
func (s *stream) Write(b []byte) (int, error) { return s.out.Write(b) }
func (s *stream) RemoteAddr() net.Addr        { return &net.TCPAddr{} }

// FuzzReceive receives what a peer sends: it never leaves the directory, and leaves no incomplete file.
func FuzzReceive(f *testing.F) {
	message := func(command uint8, data uint32, body string) []byte {
		b, err := binary.Append(nil, binary.NativeEndian, header{Command: command, Data: data, Length: uint16(headerSize + len(body))})
		if err != nil {
			f.Fatal(err)
		}
		return append(b, body...)
	}
	file := func(name string, content string) []byte {
		size := binary.NativeEndian.AppendUint64(nil, uint64(len(content)))
		return slices.Concat(message(cmdOpen, 0o644, name+"\x00"), message(cmdWrite, 0, string(size)), []byte(content), message(cmdClose, 0, ""))
	}
	for _, name := range []string{"a", "dir/a", "dir", "../outside", "out", "out/x", "/etc/x", "dir/../../x", ".", "", "\x1b[2J", strings.Repeat("n", 300)} {
		f.Add(file(name, "content"))
	}
	f.Add(slices.Concat(file("a", ""), file("a", "again"), message(cmdOpen, 0, "b"), message(cmdOpen, 0, "c")))
	f.Add(slices.Concat(message(cmdOpen, 0o7777, "a"), message(cmdWrite, 0, "\xff\xff\xff\xff\xff\xff\xff\x7f"), []byte("short")))
	f.Fuzz(func(t *testing.T, b []byte) {
		above := t.TempDir()
		dir := filepath.Join(above, "dir")
		for _, err := range []error{os.MkdirAll(filepath.Join(dir, "dir"), 0o755), os.WriteFile(filepath.Join(above, "outside"), []byte("kept"), 0o600),
			os.Symlink("../outside", filepath.Join(dir, "out"))} {
			if err != nil {
				t.Fatal(err)
			}
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		var out, errs bytes.Buffer
		c := &command{Output: cli.Output{Stdout: &out, Stderr: &errs}}
		s := &stream{}
		s.in.Write(b)
		r := &receiver{command: c, conn: c.timed(s), root: root}
		_ = r.run()
		if kept, err := os.ReadFile(filepath.Join(above, "outside")); err != nil || string(kept) != "kept" {
			t.Errorf("the file outside has %q, %v", kept, err)
		}
		if names := entries(t, above); !slices.Equal(names, []string{"dir", "outside"}) {
			t.Errorf("outside is %q", names)
		}
		err = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if strings.Contains(path, "/.rdmalink-") && !bytes.Contains(b, []byte(".rdmalink-")) {
				t.Errorf("%s is left", path)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
		if strings.ContainsFunc(out.String()+errs.String(), func(r rune) bool { return r < ' ' && r != '\n' }) {
			t.Errorf("%q, %q", &out, &errs)
		}
	})
}
