//go:build linux

package main

import (
	"context"
	"errors"
)

// holdConns opens n connections. Each has a goroutine that waits on the receive CQ.
func holdConns(n int, text string) error {
	addr, err := address(text)
	if err != nil {
		return err
	}
	pd, free, err := sharedPD(addr.Addr())
	if err != nil {
		return err
	}
	ends := make([]*end, n+1)
	for i := range ends {
		if ends[i], err = dial(context.Background(), addr, pd); err != nil {
			return err
		}
		go ends[i].receive(context.Background())
		if i == 0 || i == n {
			if err := hold(i); err != nil {
				return err
			}
		}
	}
	var errs []error
	for _, e := range ends {
		errs = append(errs, e.conn.Close())
	}
	return errors.Join(append(errs, free(), noneLeft())...)
}
