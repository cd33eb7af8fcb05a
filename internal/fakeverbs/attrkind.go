package fakeverbs

// AttrKind is what an attribute of a method is, which the request itself does not tell.
type AttrKind int

// The kinds.
const (
	AttrUnknown AttrKind = iota
	AttrIn               // by value up to 8 bytes, else by address
	AttrOut              // always by address
	AttrObject           // a handle or a descriptor, existing or new
)

// KindOf tells the kind of an attribute of a driver's method. The sandbox takes requests from
// other processes and needs it to find the memory that they point at.
func KindOf(driver uint32, object, method, id uint16) AttrKind {
	m := methodOf(driver, object, method)
	if m == nil {
		return AttrUnknown
	}
	i := m.index(id)
	if i < 0 {
		return AttrUnknown
	}
	switch m.attrs[i].kind {
	case ptrOut:
		return AttrOut
	case handle:
		return AttrObject
	}
	return AttrIn
}
