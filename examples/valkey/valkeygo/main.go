// Command valkeygo uses valkey-go over RDMA. Only DialCtxFn differs from a program over TCP.
package main

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"log"
	"net"
	"strings"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/goverbs/goverbs/valkeyrdma"

	_ "github.com/goverbs/goverbs/provider/all"
)

func main() {
	password := flag.String("password", "", "of the default user")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	d := valkeyrdma.Dialer{Timeout: 10 * time.Second}
	client, err := valkey.NewClient(valkey.ClientOption{InitAddress: []string{flag.Arg(0)}, Password: *password,
		DialCtxFn: func(ctx context.Context, address string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return d.DialContext(ctx, "tcp", address)
		}})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	for _, step := range []struct {
		name string
		run  func(context.Context, valkey.Client) error
	}{{"value", value}, {"pipeline", pipeline}, {"script", script}, {"publish", publish}, {"block", block}, {"cache", cache}, {"kill", kill}} {
		if err := step.run(ctx, client); err != nil {
			log.Fatalf("%s: %v", step.name, err)
		}
		fmt.Println(step.name, "ok")
	}
}

// value sets a key to 4 MiB and gets it.
func value(ctx context.Context, c valkey.Client) error {
	want := strings.Repeat("value", 800_000)
	if err := c.Do(ctx, c.B().Set().Key("key").Value(want).Build()).Error(); err != nil {
		return err
	}
	got, err := c.Do(ctx, c.B().Get().Key("key").Build()).ToString()
	if err == nil && got != want {
		err = fmt.Errorf("%d bytes came back", len(got))
	}
	return err
}

// pipeline sends 10,000 commands without waiting for replies.
func pipeline(ctx context.Context, c valkey.Client) error {
	commands := valkey.Commands{c.B().Del().Key("counter").Build()}
	for range 10_000 {
		commands = append(commands, c.B().Incr().Key("counter").Build())
	}
	n, err := c.DoMulti(ctx, commands...)[10_000].ToInt64()
	if err == nil && n != 10_000 {
		err = fmt.Errorf("the counter is %d", n)
	}
	return err
}

func script(ctx context.Context, c valkey.Client) error {
	n, err := valkey.NewLuaScript("return #ARGV[1] + #KEYS[1]").Exec(ctx, c, []string{"abc"}, []string{"de"}).ToInt64()
	if err == nil && n != 5 {
		err = fmt.Errorf("the script returns %d", n)
	}
	return err
}

func publish(ctx context.Context, c valkey.Client) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	got := make(chan string, 1)
	subscriber, release := c.Dedicate()
	defer release()
	subscriber.SetPubSubHooks(valkey.PubSubHooks{OnMessage: func(m valkey.PubSubMessage) { got <- m.Message }})
	if err := subscriber.Do(ctx, c.B().Subscribe().Channel("news").Build()).Error(); err != nil {
		return err
	}
	if err := c.Do(ctx, c.B().Publish().Channel("news").Message("hello").Build()).Error(); err != nil {
		return err
	}
	select {
	case m := <-got:
		if m != "hello" {
			return fmt.Errorf("the message is %q", m)
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// block waits for an element that another connection pushes later.
func block(ctx context.Context, c valkey.Client) error {
	go func() {
		time.Sleep(100 * time.Millisecond)
		c.Do(ctx, c.B().Lpush().Key("queue").Element("job").Build())
	}()
	got, err := c.Do(ctx, c.B().Blpop().Key("queue").Timeout(0).Build()).AsStrSlice()
	if err == nil && got[1] != "job" {
		err = fmt.Errorf("the element is %q", got)
	}
	return err
}

// cache reads a key that the client keeps until the server invalidates it.
func cache(ctx context.Context, c valkey.Client) error {
	for _, want := range []string{"red", "blue"} {
		if err := c.Do(ctx, c.B().Set().Key("colour").Value(want).Build()).Error(); err != nil {
			return err
		}
		for {
			got, err := c.DoCache(ctx, c.B().Get().Key("colour").Cache(), time.Minute).ToString()
			if err != nil {
				return err
			}
			if got == want {
				break
			}
		}
	}
	return nil
}

// kill has the server close the client's connections. The next command dials again.
func kill(ctx context.Context, c valkey.Client) error {
	_ = c.Do(ctx, c.B().Arbitrary("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "no").Build()).Error() // the reply may be lost with the connection
	for {
		err := c.Do(ctx, c.B().Ping().Build()).Error()
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
}
