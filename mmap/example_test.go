package mmap_test

import (
	"fmt"

	"github.com/goverbs/goverbs/mmap"
)

// A program and a device share a ring of 8 elements in one region. The example plays both.
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

// Allocate memory outside of Go's heap.
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

// entry is an element of the rings below.
type entry struct{ Word, Value uint32 }

// exampleRegion returns memory for a ring. A program uses memory that the device's driver maps.
func exampleRegion(bytes int) *mmap.Region {
	r, err := mmap.Anonymous(bytes, nil)
	if err != nil {
		panic(err)
	}
	return r
}

// Indexes wrap around: index 5 of 4 elements is the second element.
func ExampleArray() {
	r := exampleRegion(4096)
	defer r.Close()
	a, err := mmap.NewArray[entry](r, 64, 4)
	if err != nil {
		panic(err)
	}
	a.At(5).Value = 7
	fmt.Println(a.At(1).Value)
	// Output: 7
}

// The producer hands over two elements with one store. They are free again once the consumer
// has returned them.
func ExampleFlagProducer() {
	r := exampleRegion(4096)
	defer r.Close()
	producer, err := mmap.NewFlagProducer[entry](r, 2, 0)
	if err != nil {
		panic(err)
	}
	slots, n := producer.Room(2)
	for i := range n {
		slots.At(i).Value = uint32(10 + i)
		producer.Stage(i, slots.At(i), mmap.Valid)
	}
	producer.Publish(n)
	_, n = producer.Room(2)
	fmt.Println("room for", n)
	// Output: room for 0
}

// The consumer checks the word of an element before it reads the rest.
func ExampleFlagConsumer() {
	r := exampleRegion(4096)
	defer r.Close()
	producer, err := mmap.NewFlagProducer[entry](r, 4, 0)
	if err != nil {
		panic(err)
	}
	consumer, err := mmap.NewFlagConsumer[entry](r, 4, 0)
	if err != nil {
		panic(err)
	}
	slots, _ := producer.Room(1)
	slots.At(0).Value = 7
	producer.Stage(0, slots.At(0), mmap.Valid)
	producer.Publish(1)
	for e := consumer.At(0); consumer.Word(e)&mmap.Valid != 0; e = consumer.At(0) {
		fmt.Println(e.Value)
		consumer.Return(e)
		consumer.Release(1)
	}
	// Output: 7
}

// Of four slots three are filled, because a full ring must differ from an empty one.
func ExampleIndexedProducer() {
	r := exampleRegion(4096)
	defer r.Close()
	layout := mmap.IndexedLayout{Slots: 4, Stride: 8, Producer: 0, Consumer: 64, Data: 128}
	producer, err := mmap.NewIndexedProducer[entry](r, layout)
	if err != nil {
		panic(err)
	}
	slots, n, err := producer.Room(4)
	if err != nil {
		panic(err)
	}
	for i := range n {
		slots.At(i).Value = uint32(i)
	}
	producer.Publish(n)
	fmt.Println(n)
	// Output: 3
}

// The consumer takes all elements in one batch, and returns them with one store.
func ExampleIndexedConsumer() {
	r := exampleRegion(4096)
	defer r.Close()
	layout := mmap.IndexedLayout{Slots: 4, Stride: 8, Producer: 0, Consumer: 64, Data: 128}
	producer, err := mmap.NewIndexedProducer[entry](r, layout)
	if err != nil {
		panic(err)
	}
	consumer, err := mmap.NewIndexedConsumer[entry](r, layout)
	if err != nil {
		panic(err)
	}
	in, n, err := producer.Room(2)
	if err != nil {
		panic(err)
	}
	for i := range n {
		in.At(i).Value = uint32(10 + i)
	}
	producer.Publish(n)
	out, n := consumer.Ready(4)
	for i := range n {
		fmt.Println(out.At(i).Value)
	}
	consumer.Release(n)
	fmt.Println(consumer.Err())
	// Output:
	// 10
	// 11
	// <nil>
}

// The example plays a device that fills a ring in laps: it sets the owner bit in the first lap.
func ExampleLapConsumer() {
	const owner = 1 << 31
	r := exampleRegion(4096)
	defer r.Close()
	device, err := mmap.NewArray[entry](r, 0, 4)
	if err != nil {
		panic(err)
	}
	consumer, err := mmap.NewLapConsumer[entry](r, 4, 0, owner)
	if err != nil {
		panic(err)
	}
	device.At(0).Value = 7
	word, err := r.Word(0)
	if err != nil {
		panic(err)
	}
	mmap.StoreRelease(word, owner)
	n := consumer.Ready(4)
	fmt.Println(n, consumer.At(0).Value)
	consumer.Release(n)
	// Output: 1 7
}

// A program that polls checks one word for any kind of ring.
func ExamplePeek() {
	r := exampleRegion(4096)
	defer r.Close()
	producer, err := mmap.NewFlagProducer[entry](r, 4, 0)
	if err != nil {
		panic(err)
	}
	consumer, err := mmap.NewFlagConsumer[entry](r, 4, 0)
	if err != nil {
		panic(err)
	}
	peek := consumer.Peek()
	fmt.Println("empty:", peek.Empty())
	slots, _ := producer.Room(1)
	producer.Stage(0, slots.At(0), mmap.Valid)
	producer.Publish(1)
	fmt.Println("empty:", peek.Empty())
	// Output:
	// empty: true
	// empty: false
}
