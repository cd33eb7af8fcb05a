package abi

// method is a method of an object, with the names of its attributes by their ids.
type method struct {
	object, number uint16
	name           string
	attributes     []string
}

// The functions return the name of a number without its prefix in C, such as "CREATE_CQ", or "" if it has none.

// ObjectName returns the name of an object of uverbs.
func ObjectName(object uint32) string { return nameOf(objectNames, object) }

// MethodName returns the name of an object's method.
func MethodName(object, number uint32) string { return methodOf(object, number).name }

// AttributeName returns the name of a method's attribute.
func AttributeName(object, number, id uint16) string {
	return nameOf(methodOf(uint32(object), uint32(number)).attributes, uint32(id))
}

// WriteName returns the name of a command that is written to uverbs.
func WriteName(command uint32) string { return nameOf(writeNames, command) }

// ExName returns the name of an extended command that is written to uverbs.
func ExName(command uint32) string { return nameOf(exNames, command) }

// CMName returns the name of a command that is written to rdma_cm.
func CMName(command uint32) string { return nameOf(cmNames, command) }

func nameOf(names []string, n uint32) string {
	if uint64(n) >= uint64(len(names)) {
		return ""
	}
	return names[n]
}

// methodOf returns the method, or one without names.
func methodOf(object, number uint32) (m method) {
	for _, m := range methods {
		if uint32(m.object) == object && uint32(m.number) == number {
			return m
		}
	}
	return m
}
