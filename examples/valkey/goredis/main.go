// Command goredis uses go-redis over RDMA. Only the Dialer differs from a program over TCP.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/goverbs/goverbs/valkeyrdma"

	_ "github.com/goverbs/goverbs/provider/all"
)

func main() {
	password := flag.String("password", "", "of the default user")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	d := valkeyrdma.Dialer{Timeout: 10 * time.Second}
	client := redis.NewClient(&redis.Options{Addr: flag.Arg(0), Password: *password, Dialer: d.DialContext})
	defer client.Close()
	for _, step := range []struct {
		name string
		run  func(context.Context, *redis.Client) error
	}{{"value", value}, {"pipeline", pipeline}, {"script", script}, {"publish", publish}, {"block", block}, {"kill", kill}} {
		if err := step.run(ctx, client); err != nil {
			log.Fatalf("%s: %v", step.name, err)
		}
		fmt.Println(step.name, "ok")
	}
}

// value sets a key to 4 MiB and gets it.
func value(ctx context.Context, c *redis.Client) error {
	want := strings.Repeat("value", 800_000)
	if err := c.Set(ctx, "key", want, 0).Err(); err != nil {
		return err
	}
	got, err := c.Get(ctx, "key").Result()
	if err == nil && got != want {
		err = fmt.Errorf("%d bytes came back", len(got))
	}
	return err
}

// pipeline sends 10,000 commands before it reads the first reply.
func pipeline(ctx context.Context, c *redis.Client) error {
	replies, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.Del(ctx, "counter")
		for range 10_000 {
			p.Incr(ctx, "counter")
		}
		return nil
	})
	if err != nil {
		return err
	}
	if n := replies[10_000].(*redis.IntCmd).Val(); n != 10_000 {
		return fmt.Errorf("the counter is %d", n)
	}
	return nil
}

func script(ctx context.Context, c *redis.Client) error {
	n, err := redis.NewScript("return #ARGV[1] + #KEYS[1]").Run(ctx, c, []string{"abc"}, "de").Int()
	if err == nil && n != 5 {
		err = fmt.Errorf("the script returns %d", n)
	}
	return err
}

func publish(ctx context.Context, c *redis.Client) error {
	sub := c.Subscribe(ctx, "news")
	defer sub.Close()
	if _, err := sub.Receive(ctx); err != nil { // the subscription has begun
		return err
	}
	if err := c.Publish(ctx, "news", "hello").Err(); err != nil {
		return err
	}
	m, err := sub.ReceiveMessage(ctx)
	if err == nil && m.Payload != "hello" {
		err = fmt.Errorf("the message is %q", m.Payload)
	}
	return err
}

// block waits for an element that another connection pushes later.
func block(ctx context.Context, c *redis.Client) error {
	go func() {
		time.Sleep(100 * time.Millisecond)
		c.LPush(ctx, "queue", "job")
	}()
	got, err := c.BLPop(ctx, 0, "queue").Result()
	if err == nil && got[1] != "job" {
		err = fmt.Errorf("the element is %q", got)
	}
	return err
}

// kill has the server close the client's connections. The next command dials again.
func kill(ctx context.Context, c *redis.Client) error {
	_ = c.ClientKillByFilter(ctx, "TYPE", "normal", "SKIPME", "no").Err() // the reply may be lost with the connection
	return c.Ping(ctx).Err()
}
