// Package mmap is memory that a program shares with a kernel or a device. It has a [Region]
// of memory outside the Go heap, three kinds of rings in a region, and a [Page], through
// which a program stores to the registers of a device.
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
// A flag ring ([FlagProducer], [FlagConsumer]; siw) has a 32-bit word in each element. The
// word's [Valid] bit decides which side owns the element. Each side keeps its position in a
// private free-running counter. The number of elements is a power of two.
//
// An indexed ring ([IndexedProducer], [IndexedConsumer]; rxe) has two 32-bit index words, one
// written by each side, always from 0 to slots-1. The ring is empty if they are equal, and
// full if the producer is one before the consumer, so one slot stays empty.
//
// A lap ring ([LapConsumer]; erdma's completions) is filled by a device. Each element has an
// owner bit, which changes with every lap of the device, so the consumer writes nothing to
// the ring. It reports its position to the device by a doorbell.
//
//	             producer writes        consumer writes
//	flag ring    element, word|Valid    word = 0
//	indexed      element, producer      consumer
//	lap ring     element, owner bit     nothing
//
// An [Array] has no such rules. It is for queues whose elements change their owner by
// doorbells and completions (mlx5, erdma).
//
// # Ordering
//
//   - One atomic store hands an element over. It follows every plain store to the element
//     (producer) or the last plain load from it (consumer). It is a release: a side that
//     loads the new value sees everything before the store.
//   - An atomic load, an acquire, accepts an element before any other access to it. After
//     the load, [FromDevice] orders the reads of memory that a device wrote. The producer of
//     a flag ring loads only the word of the last element of a batch, because the consumer
//     returns elements in order.
//   - An element is used only between the accepting load and the handing store.
//   - Go's atomics are sequentially consistent. [FlagProducer.PublishBehind] needs that.
//     The two rules need less, and an XCHG on amd64 costs as much as 20 plain stores. So all
//     others publish with [StoreRelease], which is a plain store on amd64 with Go's own
//     compiler. The processor keeps stores behind earlier loads and stores. The compiler
//     orders all memory operations in one chain. It may join adjacent stores, and drop a
//     store that another covers, but that never shows a word before its element. The
//     language promises neither, so arm64, other compilers and the race detector get the
//     atomic store.
//   - One store hands a batch over. On a flag ring the words of all elements but the first
//     are stored before it, because the consumer takes elements in order.
//   - Go has no 8- or 16-bit atomics. For a u8 or u16 flag of a C struct, the word is the
//     aligned 32 bits around it, which include neighbouring fields. The producer stores those
//     fields with the word, and the consumer takes them from the loaded word.
//
// # The other side is hostile
//
// Counts, strides, offsets and indexes from shared memory are checked before use. A
// constructor refuses a ring that does not fit in its region. An index out of range is
// [ErrIndex], and never used as an offset. The contents of an element are not checked: read
// each field once, into a variable, and check the variable.
//
// # Concurrency and the race detector
//
// A ring has two sides. One goroutine at a time may use each. The race detector ignores
// mapped memory, and atomic operations there create no order for it. It so reports a race
// between goroutines that synchronize through a mapped ring. A test that plays the kernel
// uses memory from the heap, see [Wrap].
package mmap

/*
Implementation

A Page rotates an offset right by the size of the word and compares it with the number of
words. One comparison so checks bounds and alignment. The number of words is 0 in a watched
page, so the same comparison sends every store to the watcher, and an unwatched page pays
nothing for watchers.

A test assembles the stores for both architectures and compares the machine code, because no
test run detects a missing barrier on amd64.
*/
