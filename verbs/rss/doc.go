// Package rss describes receive side scaling: receive queues that belong to no queue pair, and how
// a device distributes packets among them. In package uverbs, CreateWQ creates such queues,
// CreateRWQIndTable creates tables of them, and CreateRSSQP creates queue pairs on a table.
//
// Experimental: may change in any release; see docs/stability.md. No card has run it yet.
//
// The shortest whole program:
//
//	package main
//
//	import (
//		"fmt"
//
//		"github.com/goverbs/goverbs/uverbs"
//		"github.com/goverbs/goverbs/verbs/rss"
//	)
//
//	func main() {
//		opts := uverbs.RSSOptions{Hash: rss.Hash{
//			Function: rss.Toeplitz,
//			Key:      make([]byte, 40),
//			Fields:   rss.SrcIPv4 | rss.DstIPv4,
//		}}
//		fmt.Println(len(opts.Hash.Key), "bytes of key for pd.CreateRSSQP(&opts)")
//	}
package rss
