//go:build linux

package main

import (
	"context"
	"errors"
	"time"
)

func setup(text string) error {
	start := time.Now()
	addr, err := address(text)
	if err != nil {
		return err
	}
	ctx := context.Background()
	e, err := dial(ctx, addr)
	if err != nil {
		return err
	}
	if err := errors.Join(e.sendByte(ctx), e.receive(ctx)); err != nil {
		return err
	}
	took := time.Since(start)
	return errors.Join(report("set-up time", "open to first byte", "ms", took.Seconds()*1e3), e.conn.Close(), noneLeft())
}
