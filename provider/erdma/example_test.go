package erdma_test

import (
	"fmt"

	_ "github.com/goverbs/goverbs/provider/erdma"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// exampleTest implements the part of *testing.T that devices in software need.
type exampleTest struct{}

func (exampleTest) Helper()                           {}
func (exampleTest) Cleanup(func())                    {}
func (exampleTest) Errorf(format string, args ...any) { fmt.Printf(format+"\n", args...) }

// The import is all that a program needs to poll queues of this driver's devices. This one
// is in software.
func Example() {
	fabric := rdmatest.NewWith(exampleTest{}, &rdmatest.Options{Kind: rdmatest.ERDMA, Endless: true})
	dev, err := uverbs.Open(fabric.Host(0).Device(0).Name())
	if err != nil {
		panic(err)
	}
	defer dev.Close()
	cq, err := dev.CreateCQ(16, nil)
	if err != nil {
		panic(err)
	}
	defer cq.Close()
	n, err := cq.Poll(make([]verbs.WC, 16))
	fmt.Println(n, err)
	// Output: 0 <nil>
}
