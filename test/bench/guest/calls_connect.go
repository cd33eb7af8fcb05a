//go:build linux

package main

import "fmt"

// connections returns the number of connections of a row. C can't open many more over siw.
func connections(long bool) int {
	if long {
		return 60
	}
	return 10
}

// exchanging returns an exchange of n connections.
func (b *bench) exchanging(l *link, d dialogue, n int) exchange {
	return exchange{comm(d.server), n, func() error { _, err := b.served(l, d); return err }}
}

// dialRow returns the row for Dial, Accept and Close, with c connections at a time. C uses a thread for
// each.
func dialRow(c int) callRow {
	return callRow{
		name: fmt.Sprintf("connect %d at a time", c), unit: "connection", drivers: drivers, impls: []string{"rdma-core", "goverbs"},
		exchange: func(b *bench, impl string, l *link, long bool) exchange {
			n := connections(long)
			return b.exchanging(l, b.dialling(impl, n, c, l.addr+":"+scalePort), n)
		},
	}
}
