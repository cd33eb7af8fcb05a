package rdmatest_test

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/goverbs/goverbs/msg"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
)

// example is the TB of examples, which have no *testing.T.
type example struct{ cleanups []func() }

func (e *example) Helper()                           {}
func (e *example) Cleanup(f func())                  { e.cleanups = append(e.cleanups, f) }
func (e *example) Errorf(format string, args ...any) { fmt.Printf(format+"\n", args...) }

func (e *example) end() {
	for _, f := range e.cleanups {
		f()
	}
}

// A message goes from one host to another.
func Example() {
	t := new(example)
	defer t.end()
	ctx := context.Background()
	fabric := rdmatest.New(t)
	l, err := msg.Listen(ctx, fabric.Host(1).Addr()+":0")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer l.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		server, err := l.Accept(ctx)
		if err != nil {
			fmt.Println(err)
			return
		}
		defer server.Close()
		m, err := server.Recv(ctx)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s\n", m.Bytes())
		m.Release()
	}()
	client, err := msg.Dial(ctx, l.Addr().String())
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := client.Send(ctx, []byte("hello")); err != nil {
		fmt.Println(err)
	}
	if err := client.Close(); err != nil {
		fmt.Println(err)
	}
	<-done
	// Output: hello
}

// A device refuses the calls that the test chooses.
func ExampleDevice_Fail() {
	t := new(example)
	defer t.end()
	device := rdmatest.New(t).Host(0).Device(0)
	dev, err := uverbs.Open(device.Name())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer dev.Close()
	device.Fail(rdmatest.CallAllocPD, 0, syscall.ENOMEM)
	_, err = dev.AllocPD()
	fmt.Println(errors.Is(err, syscall.ENOMEM))
	// Output: true
}

// A connect request is lost, and the program gives up.
func ExampleFabric_HoldCM() {
	t := new(example)
	defer t.end()
	fabric := rdmatest.New(t)
	lost := fabric.HoldCM(rdmatest.CMConnect)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-lost; cancel() }()
	_, err := rdmacm.Dial(ctx, fabric.Host(1).Addr()+":7471")
	fmt.Println(errors.Is(err, context.Canceled))
	// Output: true
}
