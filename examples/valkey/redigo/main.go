// Command redigo uses redigo over RDMA. Only DialContextFunc differs from a program over TCP.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goverbs/goverbs/valkeyrdma"

	_ "github.com/goverbs/goverbs/provider/all"
)

func main() {
	password := flag.String("password", "", "of the default user")
	flag.Parse()
	d := valkeyrdma.Dialer{Timeout: 10 * time.Second}
	pool := &redis.Pool{MaxIdle: 2, DialContext: func(ctx context.Context) (redis.Conn, error) {
		return redis.DialContext(ctx, "tcp", flag.Arg(0), redis.DialContextFunc(d.DialContext), redis.DialPassword(*password))
	}, TestOnBorrow: func(c redis.Conn, _ time.Time) error {
		_, err := c.Do("PING")
		return err
	}}
	defer pool.Close()
	for _, step := range []struct {
		name string
		run  func(pool *redis.Pool) error
	}{{"hello", hello}, {"value", value}, {"pipeline", pipeline}, {"script", script}, {"publish", publish}, {"block", block}, {"kill", kill}} {
		if err := step.run(pool); err != nil {
			log.Fatalf("%s: %v", step.name, err)
		}
		fmt.Println(step.name, "ok")
	}
}

// hello names the connection.
func hello(pool *redis.Pool) error {
	c := pool.Get()
	defer c.Close()
	_, err := c.Do("HELLO", "2", "SETNAME", "redigo")
	return err
}

// value sets a key to 4 MiB and gets it.
func value(pool *redis.Pool) error {
	c := pool.Get()
	defer c.Close()
	want := strings.Repeat("value", 800_000)
	if _, err := c.Do("SET", "key", want); err != nil {
		return err
	}
	got, err := redis.String(c.Do("GET", "key"))
	if err == nil && got != want {
		err = fmt.Errorf("%d bytes came back", len(got))
	}
	return err
}

// pipeline sends 10,000 commands before it reads the first reply.
func pipeline(pool *redis.Pool) error {
	c := pool.Get()
	defer c.Close()
	if _, err := c.Do("DEL", "counter"); err != nil {
		return err
	}
	for range 9_999 {
		if err := c.Send("INCR", "counter"); err != nil {
			return err
		}
	}
	replies, err := redis.Values(c.Do(""))
	if err != nil {
		return err
	}
	n, err := redis.Int(c.Do("INCR", "counter"))
	if err == nil && (n != 10_000 || len(replies) != 9_999) {
		err = fmt.Errorf("the counter is %d after %d replies", n, len(replies))
	}
	return err
}

func script(pool *redis.Pool) error {
	c := pool.Get()
	defer c.Close()
	n, err := redis.Int(redis.NewScript(1, "return #ARGV[1] + #KEYS[1]").Do(c, "abc", "de"))
	if err == nil && n != 5 {
		err = fmt.Errorf("the script returns %d", n)
	}
	return err
}

func publish(pool *redis.Pool) error {
	c := pool.Get()
	defer c.Close()
	sub := redis.PubSubConn{Conn: pool.Get()}
	defer sub.Close()
	if err := sub.Subscribe("news"); err != nil {
		return err
	}
	if err, ok := sub.Receive().(error); ok { // the subscription has begun
		return err
	}
	if _, err := c.Do("PUBLISH", "news", "hello"); err != nil {
		return err
	}
	switch m := sub.ReceiveWithTimeout(time.Minute).(type) {
	case error:
		return m
	case redis.Message:
		if string(m.Data) != "hello" {
			return fmt.Errorf("the message is %q", m.Data)
		}
	}
	return sub.Unsubscribe()
}

// block waits for an element that another connection pushes later.
func block(pool *redis.Pool) error {
	c := pool.Get()
	defer c.Close()
	go func() {
		other := pool.Get()
		defer other.Close()
		time.Sleep(100 * time.Millisecond)
		_, _ = other.Do("LPUSH", "queue", "job")
	}()
	got, err := redis.Strings(redis.DoWithTimeout(c, time.Minute, "BLPOP", "queue", 0))
	if err == nil && got[1] != "job" {
		err = fmt.Errorf("the element is %q", got)
	}
	return err
}

// kill has the server close the pool's connections. The pool dials again.
func kill(pool *redis.Pool) error {
	c := pool.Get()
	_, _ = c.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "no") // the reply may be lost with the connection
	_ = c.Close()
	c = pool.Get()
	defer c.Close()
	_, err := c.Do("PING")
	return err
}
