package trace

import "fmt"

//go:generate go run ./gen ../../../../internal/abi znames.go ../../../../internal/ioctl/znames.go

type methodKey struct{ object, method uint16 }

// method is one of an object's, with the names of its attributes.
type method struct {
	name       string
	attributes map[uint16]string
}

// named is the name that a number has, or the number.
func named(names map[uint32]string, n uint32, what string) string {
	if name, ok := names[n]; ok {
		return name
	}
	return fmt.Sprintf("%s %#x", what, n)
}
