//go:build linux

package main

import (
	"context"
	"errors"
	"slices"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// holdConns opens n connections. Each has a goroutine that waits on the receive CQ.
func holdConns(n int, text string) error {
	addr, err := address(text)
	if err != nil {
		return err
	}
	ends := make([]*end, n+1)
	for i := range ends {
		if ends[i], err = dial(context.Background(), addr); err != nil {
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
	return errors.Join(append(errs, noneLeft())...)
}

// depth is the number of work requests of a plain QP, which is that of a Conn.
const depth = 64

func holdPairs(n int, device string) error {
	dev, err := uverbs.Open(device)
	if err != nil {
		return err
	}
	pd, err := dev.AllocPD()
	if err != nil {
		return err
	}
	cq, err := dev.CreateCQ(depth, nil)
	if err != nil {
		return err
	}
	pairs := make([]*uverbs.QP, n+1)
	for i := range pairs {
		pairs[i], err = pd.CreateQP(&uverbs.QPOptions{SendCQ: cq, RecvCQ: cq,
			Cap: verbs.QPCap{MaxSendWR: depth, MaxRecvWR: depth, MaxSendSGE: 1, MaxRecvSGE: 1}})
		if err != nil {
			return err
		}
		if i == 0 || i == n {
			if err := hold(i); err != nil {
				return err
			}
		}
	}
	var errs []error
	for _, qp := range slices.Backward(pairs) {
		errs = append(errs, qp.Close())
	}
	return errors.Join(append(errs, cq.Close(), pd.Close(), dev.Close(), noneLeft())...)
}
