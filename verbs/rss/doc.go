// Package rss describes receive queues that belong to no queue pair, and how a device spreads
// packets over them: receive side scaling. Package uverbs makes such queues with CreateWQ,
// tables of them with CreateRWQIndTable, and queue pairs on a table with CreateRSSQP.
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
//
// No card has run it yet; it may change in any release.
package rss
