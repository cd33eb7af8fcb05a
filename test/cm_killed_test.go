//go:build vm

package test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
)

const cmVictimEnv = "GOVERBS_TEST_DIAL"

// TestCMVictim is the other process of TestCMPeerKilled: it connects and sends
// without end.
func TestCMVictim(t *testing.T) {
	addr := os.Getenv(cmVictimEnv)
	if addr == "" {
		t.Skip("runs only as a child of TestCMPeerKilled")
	}
	c, err := rdmacm.Dial(t.Context(), addr, nil)
	if err != nil {
		t.Fatal(err)
	}
	mr, err := c.PD().AllocMR(1<<20, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	for {
		wr := uverbs.SendWR{Opcode: uverbs.OpSend, Flags: uverbs.SendSignaled, SGL: []uverbs.SGE{mr.SGE(0, 1<<20)}}
		if _, err := c.QP().PostSend([]uverbs.SendWR{wr}); err != nil {
			t.Fatal(err)
		}
		if _, err := cmWait(t.Context(), c.SendCQ()); err != nil {
			t.Fatal(err)
		}
	}
}

// A peer that is killed in the midst of a transfer ends the connection and
// flushes what is posted, within seconds.
func TestCMPeerKilled(t *testing.T) {
	cmLink(t, "siw")
	l, err := rdmacm.Listen("10.78.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	victim := exec.Command(os.Args[0], "-test.run", "^TestCMVictim$")
	victim.Env = append(os.Environ(), cmVictimEnv+"="+l.Addr().String())
	var output bytes.Buffer
	victim.Stdout, victim.Stderr = &output, &output
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var mr *uverbs.MR
	post := func(c *rdmacm.Conn) error {
		_, err := c.QP().PostRecv([]uverbs.RecvWR{{SGL: []uverbs.SGE{mr.SGE(0, 1<<20)}}})
		return err
	}
	c, err := l.Next(ctx)
	if err != nil {
		t.Fatal(err, output.String())
	}
	conn, err := c.Accept(ctx, &rdmacm.Config{Prepare: func(c *rdmacm.Conn) (err error) {
		if mr, err = c.PD().AllocMR(1<<20, uverbs.AccessLocalWrite, nil); err != nil {
			return err
		}
		c.Own(mr)
		for range 32 {
			err = errors.Join(err, post(c))
		}
		return err
	}})
	if err != nil {
		t.Fatal(err, output.String())
	}
	defer conn.Close()
	var killed time.Time
	for n := 0; ; n++ {
		if n == 20 {
			killed = time.Now()
			victim.Process.Kill()
			victim.Wait()
		}
		if _, err = cmWait(ctx, conn.RecvCQ()); err != nil {
			break
		}
		if err = post(conn); err != nil && !killed.IsZero() {
			break
		}
	}
	if !errors.Is(err, uverbs.StatusWRFlushErr) && !errors.Is(err, uverbs.StatusGeneralErr) {
		t.Errorf("receive after the kill: %v\n%s", err, output.String())
	}
	select {
	case <-conn.Done():
	case <-ctx.Done():
		t.Fatal("no word of the peer's end")
	}
	if err := conn.Err(); !errors.Is(err, rdmacm.ErrDisconnected) {
		t.Error(err)
	}
	if took := time.Since(killed); took > 5*time.Second {
		t.Error("took", took)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
}
