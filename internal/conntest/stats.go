package conntest

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/goverbs/goverbs/rdmacm"
)

// A StatConn is a connection that counts.
type StatConn interface {
	net.Conn
	Stats() rdmacm.ConnStats
}

// Stats checks the counts of two connected ends.
func Stats(t *testing.T, a, b StatConn) {
	t.Helper()
	sent := uint64(0)
	for a.Stats().RoomWaits == 0 { // nobody reads
		_ = a.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
		n, err := a.Write(make([]byte, 64<<10))
		if sent += uint64(n); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
	}
	if _, err := io.CopyN(io.Discard, b, int64(sent)); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Write([]byte("end")); err != nil {
		t.Fatal(err)
	}
	end := make([]byte, 3)
	if _, err := io.ReadFull(a, end); err != nil || !bytes.Equal(end, []byte("end")) {
		t.Fatal(err)
	}
	sa, sb := a.Stats(), b.Stats()
	if sa.BytesSent != sent || sb.BytesReceived != sent || sa.BytesReceived != 3 || sb.BytesSent != 3 {
		t.Errorf("bytes: %+v, %+v", sa, sb)
	}
	if sb.MessagesReceived == 0 || sa.MessagesReceived == 0 || sa.MessagesSent == 0 || sa.RegisteredBytes == 0 || sa.Failed != nil || sb.Failed != nil {
		t.Errorf("%+v, %+v", sa, sb)
	}
	if sa.RoomWait <= 0 {
		t.Errorf("waits: %+v, %+v", sa, sb)
	}
}
