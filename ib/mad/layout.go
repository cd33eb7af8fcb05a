package mad

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
)

// Attribute is a pointer to an attribute of this package, such as *PortInfo.
type Attribute interface {
	attribute() *Layout
}

// Layout describes the position of each field of an attribute in a MAD.
type Layout struct {
	Name   string // of the Go type
	Class  Class  // ClassLID for attributes of both classes of subnet management; 0 for those of all classes
	AttrID AttrID
	Size   int // length in bytes, which Unmarshal and Marshal need at least
	Fields []Field

	typ reflect.Type
}

// Field describes one value of an attribute. An array has a Field for each element. The fields of
// an attribute that is embedded in a record are Fields of the record.
type Field struct {
	Name  string // as C's libibmad prints it
	Bit   int    // position of the first bit in the attribute, most significant bit first
	Width int    // in bits
	Kind  Kind
	Array string // name of the array that has the field as an element, or ""

	offset uintptr // in the Go struct
	memory memory
}

// memory is the type of a field in the Go struct.
type memory uint8

const (
	memoryBool memory = iota
	memoryUint8
	memoryUint16
	memoryUint32
	memoryUint64
	memoryBytes
	memoryString
)

// known is an attribute whose layout is made when it is first asked for, because few programs use many of them.
type known struct {
	class  Class
	id     AttrID
	layout func() *Layout
}

// layouts holds the layouts of all attributes.
var layouts []known

// FindLayout returns the layout of an attribute of a class, or nil if this package doesn't know it.
func FindLayout(class Class, id AttrID) *Layout {
	if class == ClassDirected {
		class = ClassLID
	}
	for _, k := range layouts {
		if k.id == id && (k.class == class || k.class == 0) {
			return k.layout()
		}
	}
	return nil
}

// LayoutOf returns the layout of an attribute.
func LayoutOf(a Attribute) *Layout { return a.attribute() }

// New returns a new, zero attribute with this layout.
func (l *Layout) New() Attribute { return reflect.New(l.typ).Interface().(Attribute) }

// layoutOf returns a function that reads the tags of T, once. A tag consists of a position
// (byte.bit:width), a name and a kind. The width of an array is that of one element. The tag of an
// attribute that is embedded in a record has a position only.
func layoutOf[T any](class Class, id AttrID, size int) func() *Layout {
	k := known{class, id, sync.OnceValue(func() *Layout {
		t := reflect.TypeFor[T]()
		l := &Layout{Name: t.Name(), Class: class, AttrID: id, Size: size, typ: t}
		l.add(t, 0, 0, "")
		return l
	})}
	layouts = append(layouts, k)
	return k.layout
}

// add adds the fields of a struct. The struct begins at a bit of the attribute and at an offset in
// the Go struct. index is the struct's index in an array, or "".
func (l *Layout) add(t reflect.Type, bit int, offset uintptr, index string) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag := strings.Split(f.Tag.Get("mad"), ",")
		at, width := position(t, tag[0])
		at += bit
		field := Field{Bit: at, Width: width, offset: offset + f.Offset}
		if len(tag) == 3 {
			field.Name = tag[1]
			if field.Kind = kindNamed(tag[2]); field.Kind == 0 {
				panic("mad: " + t.Name() + "." + f.Name + " has the unknown kind " + tag[2])
			}
		}
		number := index
		switch ft := f.Type; {
		case ft.Kind() == reflect.Struct:
			l.add(ft, at, field.offset, "")
			continue
		case field.Kind == kindArray:
			field.memory = memoryBytes
		case ft.Kind() == reflect.Array:
			for n := range ft.Len() {
				element := field
				element.Bit += n * width
				element.offset += uintptr(n) * ft.Elem().Size()
				if ft.Elem().Kind() == reflect.Struct {
					l.add(ft.Elem(), element.Bit, element.offset, strconv.Itoa(n))
					continue
				}
				element.memory = memoryOf(ft.Elem().Kind())
				l.append(element, strconv.Itoa(n))
			}
			continue
		default:
			field.memory = memoryOf(ft.Kind())
		}
		l.append(field, number)
	}
}

func (l *Layout) append(f Field, index string) {
	if index != "" {
		f.Array = strings.TrimSuffix(strings.Replace(f.Name, "%d", "", 1), "_")
		f.Name = strings.Replace(f.Name, "%d", index, 1)
	}
	l.Fields = append(l.Fields, f)
}

func position(t reflect.Type, s string) (bit, width int) {
	where, w, ok := strings.Cut(s, ":")
	at, sub, _ := strings.Cut(where, ".")
	n, err := strconv.Atoi(at)
	if sub != "" && err == nil {
		bit, err = strconv.Atoi(sub)
	}
	if ok && err == nil {
		width, err = strconv.Atoi(w)
	}
	if err != nil {
		panic("mad: " + t.Name() + " has the position " + s)
	}
	return n*8 + bit, width
}

func memoryOf(k reflect.Kind) memory {
	switch k {
	case reflect.Bool:
		return memoryBool
	case reflect.Uint8:
		return memoryUint8
	case reflect.Uint16:
		return memoryUint16
	case reflect.Uint32:
		return memoryUint32
	case reflect.Uint64:
		return memoryUint64
	case reflect.String:
		return memoryString
	}
	panic("mad: an attribute has a field of kind " + k.String())
}

// Unmarshal decodes data into an attribute. It fails if data is shorter than the attribute.
// Optional fields beyond the end of data become zero.
func Unmarshal(data []byte, a Attribute) error {
	l := a.attribute()
	if len(data) < l.Size {
		return failed("decode", l.Name, "%d bytes, not %d", len(data), l.Size)
	}
	p := pointer(a)
	for i := range l.Fields {
		f := &l.Fields[i]
		if f.Bit+f.Width > len(data)*8 {
			f.clear(p)
			continue
		}
		switch f.memory {
		case memoryBytes:
			copy(f.bytes(p), data[f.Bit/8:])
		case memoryString:
			b := data[f.Bit/8 : (f.Bit+f.Width)/8]
			s, _, _ := strings.Cut(string(b), "\x00")
			f.setText(p, s)
		default:
			f.set(p, bits(data, f.Bit, f.Width))
		}
	}
	return nil
}

// Marshal encodes the fields of an attribute into data. It doesn't change the bits between the
// fields, so a program that receives an attribute, changes it and sends it back preserves bits that
// this package doesn't know. Marshal fails if data is shorter than the attribute, or if a value
// doesn't fit into its field.
func Marshal(data []byte, a Attribute) error {
	l := a.attribute()
	if len(data) < l.Size {
		return failed("encode", l.Name, "room for %d bytes, not %d", len(data), l.Size)
	}
	p := pointer(a)
	for i := range l.Fields {
		f := &l.Fields[i]
		if f.Bit+f.Width > len(data)*8 {
			continue
		}
		switch f.memory {
		case memoryBytes:
			copy(data[f.Bit/8:], f.bytes(p))
		case memoryString:
			b := data[f.Bit/8 : (f.Bit+f.Width)/8]
			s := f.text(p)
			if len(s) > len(b) {
				return failed("encode", l.Name, "field %s has %d bytes, more than %d", f.Name, len(s), len(b))
			}
			clear(b[copy(b, s):])
		default:
			v := f.get(p)
			if f.Width < 64 && v>>f.Width != 0 {
				return failed("encode", l.Name, "field %s is %d, which exceeds %d bits", f.Name, v, f.Width)
			}
			setBits(data, f.Bit, f.Width, v)
		}
	}
	return nil
}

// bits returns width bits of data, at most 64.
func bits(data []byte, bit, width int) uint64 {
	if bit%8 == 0 {
		d := data[bit/8:]
		switch width {
		case 8:
			return uint64(d[0])
		case 16:
			return uint64(binary.BigEndian.Uint16(d))
		case 32:
			return uint64(binary.BigEndian.Uint32(d))
		case 64:
			return binary.BigEndian.Uint64(d)
		}
	}
	var v uint64
	for width > 0 {
		n := min(8-bit%8, width) // bits in this byte
		b := data[bit/8] << (bit % 8) >> (8 - n)
		v = v<<n | uint64(b)
		bit += n
		width -= n
	}
	return v
}

func setBits(data []byte, bit, width int, v uint64) {
	for width > 0 {
		n := min(8-bit%8, width)
		shift := 8 - bit%8 - n
		mask := byte(1<<n-1) << shift
		b := byte(v>>(width-n)) << shift
		data[bit/8] = data[bit/8]&^mask | b&mask
		bit += n
		width -= n
	}
}

// Uint returns the value of the field in an attribute. The field must belong to the attribute's
// Layout. Uint returns 0 for strings and arrays of bytes.
func (f *Field) Uint(a Attribute) uint64 {
	if f.memory >= memoryBytes {
		return 0
	}
	return f.get(pointer(a))
}

// Text returns the value of the field in an attribute as C's libibmad prints it. It returns the
// bytes of a string unchanged.
func (f *Field) Text(a Attribute) string {
	switch p := pointer(a); f.memory {
	case memoryBytes:
		return fmt.Sprintf("%x", f.bytes(p))
	case memoryString:
		return f.text(p)
	default:
		return f.Kind.text(f.get(p), f.Width)
	}
}
