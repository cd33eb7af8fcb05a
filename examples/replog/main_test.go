package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goverbs/goverbs/rdmatest"
)

// cluster is three replicas on hosts 1 to 3 of a fabric. Host 0 has the leader.
type cluster struct {
	fabric    *rdmatest.Fabric
	replicas  []*replica
	addresses []string
}

func newCluster(t *testing.T, kind rdmatest.Kind) *cluster {
	c := &cluster{fabric: rdmatest.NewWith(t, &rdmatest.Options{Kind: kind, Hosts: make([]rdmatest.HostOptions, 4)})}
	for _, host := range c.fabric.Hosts()[1:] {
		r, err := newReplica(host.Addr() + ":0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(r.close)
		c.replicas, c.addresses = append(c.replicas, r), append(c.addresses, r.ln.Addr().String())
	}
	return c
}

func (c *cluster) lead(t *testing.T) *leader {
	t.Helper()
	l, err := newLeader(t.Context(), c.addresses)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.close)
	return l
}

// logs are the logs of the replicas, a word each.
func (c *cluster) logs() (all []string) {
	for _, r := range c.replicas {
		var words []string
		for _, one := range r.records() {
			words = append(words, string(one.data))
		}
		all = append(all, strings.Join(words, "+"))
	}
	return all
}

func check(t *testing.T, c *cluster, want ...string) {
	t.Helper()
	if got := c.logs(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func appends(t *testing.T, l *leader, text string, want error) {
	t.Helper()
	if err := l.append(t.Context(), []byte(text)); !errors.Is(err, want) {
		t.Errorf("append %s: %v, want %v", text, err, want)
	}
}

func onAll(t *testing.T, test func(*testing.T, *cluster)) {
	for _, kind := range rdmatest.Kinds {
		t.Run(kind.String(), func(t *testing.T) { test(t, newCluster(t, kind)) })
	}
}

func TestAppend(t *testing.T) {
	onAll(t, func(t *testing.T, c *cluster) {
		l := c.lead(t)
		appends(t, l, "one", nil)
		appends(t, l, "two", nil)
		appends(t, l, strings.Repeat("x", logSize), errFull)
		check(t, c, "one+two", "one+two", "one+two")
	})
}

func TestProgram(t *testing.T) {
	fabric := rdmatest.New(t)
	ctx, stop := context.WithCancel(t.Context())
	var out bytes.Buffer
	kept := make(chan error)
	address := fabric.Host(1).Addr() + ":7471"
	go func() { kept <- keep(ctx, address, &out) }()
	for add(t.Context(), "first", []string{address}) != nil { // until the replica listens
		time.Sleep(time.Millisecond)
	}
	if err := add(t.Context(), "second", []string{address}); err != nil {
		t.Error(err)
	}
	stop()
	if err := <-kept; err != nil || out.String() != "2 first\n2 second\n" {
		t.Errorf("%v: %q", err, &out)
	}
}
