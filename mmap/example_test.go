package mmap_test

import (
	"fmt"

	"github.com/goverbs/goverbs/mmap"
)

// A program and a device share a ring of 8 elements, in one region. Both ends are here.
func Example() {
	r, err := mmap.Anonymous(8*16, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	type element struct {
		Word  uint32 // says whose the element is
		Value uint32
		_     uint64
	}
	producer, err := mmap.NewFlagProducer[element](r, 8, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	consumer, err := mmap.NewFlagConsumer[element](r, 8, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	slots, n := producer.Room(2)
	fmt.Println("room for", n)
	for i := range n {
		producer.Stage(i, slots.At(i), mmap.Valid)
		slots.At(i).Value = uint32(i)
	}
	producer.Publish(n)
	for i := range n {
		fmt.Println("valid:", consumer.Word(consumer.At(i))&mmap.Valid != 0)
	}
	consumer.Release(n)
	// Output:
	// room for 2
	// valid: true
	// valid: true
}

// Memory outside of Go's heap.
func ExampleRegion() {
	r, err := mmap.Anonymous(4096, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	copy(r.Bytes(), "text")
	word, err := r.Word(8)
	if err != nil {
		fmt.Println(err)
		return
	}
	word.Store(7)
	fmt.Println(r.Len(), r.Bytes()[0] == 't', r.Close())
	// Output: 4096 true <nil>
}

// A model of a device sees each store to its page.
func ExamplePage() {
	r, err := mmap.Anonymous(4096, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	page, err := mmap.NewPage(r, func(s mmap.Store) { fmt.Printf("%+v\n", s.Offset) })
	if err != nil {
		fmt.Println(err)
		return
	}
	page.Store32(16, 1)
	page.Store64(24, 2)
	fmt.Println(page.Close())
	// Output:
	// 16
	// 24
	// <nil>
}
