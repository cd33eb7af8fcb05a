// Package mmap holds memory that a program shares with a kernel or a device: a
// [Region] outside the Go heap, the three kinds of rings built in one, and a [Page],
// through which a program stores to a device.
//
// The shortest whole program:
//
//	package main
//
//	import (
//		"fmt"
//		"log"
//
//		"github.com/goverbs/goverbs/mmap"
//	)
//
//	func main() {
//		r, err := mmap.Anonymous(4096, nil)
//		if err != nil {
//			log.Fatal(err)
//		}
//		defer r.Close()
//		word, err := r.Word(8)
//		if err != nil {
//			log.Fatal(err)
//		}
//		mmap.StoreRelease(word, 7)
//		fmt.Println(word.Load())
//	}
//
// # Rings
//
// A flag ring ([FlagProducer], [FlagConsumer]; siw) has a 32-bit word in each
// element, and that word's [Valid] bit says whose the element is. Positions are
// private free-running counters; the number of elements is a power of two.
//
// An indexed ring ([IndexedProducer], [IndexedConsumer]; rxe) has two 32-bit
// index words, one written by each side, always masked to 0 … slots-1. Equal
// means empty, producer one before consumer means full, so one slot stays empty.
//
// A lap ring ([LapConsumer]; erdma's completions) is filled by a device and only
// read here. An owner bit in each element changes each time that the device comes around, so
// the consumer writes nothing. How far it has come it tells the device elsewhere.
//
//	             producer writes        consumer writes
//	flag ring    element, word|Valid    word = 0
//	indexed      element, producer      consumer
//	lap ring     element, owner bit     nothing
//
// An [Array] is a ring's memory without any of these rules, for queues whose elements change
// hands by doorbells and completions (mlx5, erdma).
//
// # Ordering
//
//   - What hands an element over is one atomic store, after every plain store to
//     the element (producer) or after the last plain load from it (consumer). It
//     is a release: whoever loads the new value sees what came before it.
//   - An element is accepted by an atomic load, an acquire, before any other access to
//     it; what a device wrote, by [FromDevice] behind that load. The producer of a flag ring loads only the word of the last element of a
//     batch, because the consumer gives elements back in order.
//   - An element is touched only between the accepting load and the handing store.
//   - Go's atomics are sequentially consistent: stronger than the two rules need,
//     as strong as [FlagProducer.PublishBehind] needs. The price is an XCHG on
//     amd64, some 20 plain stores, so all others publish with [StoreRelease]: a
//     plain store where that is one, on amd64 with Go's own compiler. The processor
//     keeps stores behind earlier loads and stores; the compiler threads all that
//     touches memory on one chain; what it may do there, join adjacent stores and drop
//     one that another covers, never shows a word before what belongs to it. The
//     language promises neither, and so arm64, other compilers and the race detector get the
//     atomic.
//   - A batch is handed over with one store. On a flag ring the words of all but its
//     first element are stored before: the consumer takes elements in order.
//   - Go has no 8- or 16-bit atomics. Where the C struct has a u8 or u16 flag, the
//     word is the aligned 32 bits around it, and its neighbours go with it: put
//     them in the published word, take them from the loaded one.
//
// # The other side is hostile
//
// Counts, strides, offsets and indexes that come through shared memory are checked
// before use: a constructor refuses a ring that doesn't fit in its region, and an
// index out of range is [ErrIndex], never an address. The contents of an element are
// not checked: read each field once, into a variable, and check that.
//
// # Concurrency and the race detector
//
// A ring has two sides, and each may be used by one goroutine at a time. The race
// detector ignores mapped memory, and atomics in it order nothing for it, so
// goroutines that meet through a mapped ring seem to race. A test that plays the
// kernel uses memory from the heap, by [Wrap].
package mmap
