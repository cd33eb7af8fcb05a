package mad

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
)

// Kind is the format in which the value of a field is printed.
type Kind uint8

// The kinds of values.
const (
	KindUint   Kind = iota + 1
	kindHex         // with leading zeros, two digits a byte
	kindMKey        // a key, hidden unless DumpOptions.ShowKeys is set
	kindArray       // bytes
	kindString      // 'text'
	kindNodeType
	kindPortState
	kindPhysPortState
	kindLinkDownDefaultState
	kindLinkWidth
	kindLinkWidthSupported
	kindLinkWidthEnabled
	kindLinkSpeed
	kindLinkSpeedSet
	kindLinkSpeedExt
	kindLinkSpeedExtSet
	kindLinkSpeedExtEnabled
	kindLinkSpeedExt2
	kindLinkSpeedExt2Set
	kindMTU
	kindVLCap
	kindOperVLs
	kindPortCapMask
	kindPortCapMask2
)

// kindNamed returns the kind with a name of struct tags. The names are those of libibmad's functions.
func kindNamed(s string) Kind {
	return map[string]Kind{
		"uint": KindUint, "hex": kindHex, "mkey": kindMKey, "array": kindArray, "string": kindString, "node_type": kindNodeType, "portstate": kindPortState,
		"physportstate": kindPhysPortState, "linkdowndefstate": kindLinkDownDefaultState, "linkwidth": kindLinkWidth, "linkwidthsup": kindLinkWidthSupported,
		"linkwidthen": kindLinkWidthEnabled, "linkspeed": kindLinkSpeed, "linkspeedsup": kindLinkSpeedSet, "linkspeeden": kindLinkSpeedSet,
		"linkspeedext": kindLinkSpeedExt, "linkspeedextsup": kindLinkSpeedExtSet, "linkspeedexten": kindLinkSpeedExtEnabled, "linkspeedext2": kindLinkSpeedExt2,
		"linkspeedextsup2": kindLinkSpeedExt2Set, "linkspeedexten2": kindLinkSpeedExt2Set, "mtu": kindMTU, "vlcap": kindVLCap, "opervls": kindOperVLs,
		"portcapmask": kindPortCapMask, "portcapmask2": kindPortCapMask2,
	}[s]
}

// names holds the names of the values from 0 on.
type names []string

func (n names) text(v uint64, unknown string) string {
	if v < uint64(len(n)) && n[v] != "" {
		return n[v]
	}
	return fmt.Sprintf(unknown, v)
}

var (
	nodeTypes      = names{1: "Channel Adapter", "Switch", "Router"}
	smStates       = names{"NotActive", "Discovering", "Standby", "Master"}
	portStates     = names{"NoChange", "Down", "Initialize", "Armed", "Active"}
	physPortStates = names{"NoChange", "Sleep", "Polling", "Disabled", "PortConfigurationTraining", "LinkUp", "LinkErrorRecovery", "PhyTest"}
	linkDownStates = names{"NoChange", "Sleep", "Polling"}
	linkWidths     = names{1: "1X", 2: "4X", 4: "8X", 8: "12X", 16: "2X"}
	linkSpeeds     = names{0: "Extended speed", 1: "2.5 Gbps", 2: "5.0 Gbps", 4: "10.0 Gbps"}
	linkSpeedsExt  = names{0: "No Extended Speed", 1: "14.0625 Gbps", 2: "25.78125 Gbps", 4: "53.125 Gbps", 8: "106.25 Gbps"}
	linkSpeedsExt2 = names{"No Extended Speed 2", "212.5 Gbps"}
	mtus           = names{1: "256", "512", "1024", "2048", "4096"}
	vlCaps         = names{1: "VL0", "VL0-1", "VL0-3", "VL0-7", "VL0-14"}
	operVLs        = names{"No change", "VL0", "VL0-1", "VL0-3", "VL0-7", "VL0-14"}
)

// The names of capability bits, in libibmad's spelling.
var (
	capMaskNames = names{
		1: "IsSM", "IsNoticeSupported", "IsTrapSupported", "IsOptionalIPDSupported", "IsAutomaticMigrationSupported", "IsSLMappingSupported", "IsMKeyNVRAM",
		"IsPKeyNVRAM", "IsLedInfoSupported", "IsSMdisabled", "IsSystemImageGUIDsupported", "IsPkeySwitchExternalPortTrapSupported",
		14: "IsExtendedSpeedsSupported", "IsCapabilityMask2Supported", "IsCommunicatonManagementSupported", "IsSNMPTunnelingSupported", "IsReinitSupported",
		"IsDeviceManagementSupported", "IsVendorClassSupported", "IsDRNoticeSupported", "IsCapabilityMaskNoticeSupported", "IsBootManagementSupported",
		"IsLinkRoundTripLatencySupported", "IsClientRegistrationSupported", "IsOtherLocalChangesNoticeSupported", "IsLinkSpeedWidthPairsTableSupported",
		"IsVendorSpecificMadsTableSupported", "IsMcastPkeyTrapSuppressionSupported", "IsMulticastFDBTopSupported", "IsHierarchyInfoSupported",
	}
	capMask2Names = names{
		"IsSetNodeDescriptionSupported", "IsPortInfoExtendedSupported", "IsVirtualizationSupported", "IsSwitchPortStateTableSupported",
		"IsLinkWidth2xSupported", "IsLinkSpeedHDRSupported", "IsMKeyProtectBitsExtSupported", "IsEnhancedTrap128Supported", "IsPartitionTopSupported",
		"IsEnhancedQoSArbiterSupported", "IsLinkSpeedNDRSupported",
	}
)

// set returns the names of the bits of v, joined.
func (n names) set(v uint64) string {
	var s []string
	for bit := uint64(1); bit < uint64(len(n)); bit <<= 1 {
		if v&bit != 0 && n[bit] != "" {
			s = append(s, n[bit])
		}
	}
	return strings.Join(s, " or ")
}

func linkWidthSet(v uint64) string {
	s := linkWidths.set(v)
	if v == 0 || v>>5 != 0 {
		s = join(s, "undefined (%d)", v)
	}
	return s
}

// join appends a formatted number to the names of the known bits, as C does.
func join(s, format string, v uint64) string {
	if s != "" {
		s += " or "
	}
	return s + fmt.Sprintf(format, v)
}

func capNames(n names, v uint64) string {
	var s strings.Builder
	fmt.Fprintf(&s, "0x%x", v)
	for bit, name := range n {
		if v&(1<<bit) != 0 && name != "" {
			s.WriteString("\n\t\t\t\t" + name)
		}
	}
	return s.String()
}

func (k Kind) text(v uint64, width int) string {
	const undefined = "undefined (%d)"
	switch k {
	case kindHex, kindMKey:
		return fmt.Sprintf("0x%0*x", (width+7)/8*2, v)
	case kindNodeType:
		return nodeTypes.text(v, "?(%d)?")
	case kindPortState:
		return portStates.text(v, "?(%d)")
	case kindPhysPortState:
		return physPortStates.text(v, "?(%d)")
	case kindLinkDownDefaultState:
		return linkDownStates.text(v, "?(%d)")
	case kindLinkWidth:
		return linkWidths.text(v, undefined)
	case kindLinkWidthEnabled:
		return linkWidthSet(v)
	case kindLinkWidthSupported:
		s := linkWidthSet(v)
		switch v {
		case 1, 3, 7, 11, 15, 17, 19, 23, 27, 31:
		default:
			if v>>5 == 0 {
				s += " (IBA extension)"
			}
		}
		return s
	case kindLinkSpeed:
		return linkSpeeds.text(v, undefined)
	case kindLinkSpeedSet:
		s := linkSpeeds.set(v)
		if v == 0 || v>>3 != 0 {
			s = join(s, undefined, v)
		}
		if v == 0 || v == 2 || v == 4 || v == 6 {
			s += " (IBA extension)"
		}
		return s
	case kindLinkSpeedExt:
		return linkSpeedsExt.text(v, undefined)
	case kindLinkSpeedExtEnabled, kindLinkSpeedExtSet:
		switch {
		case v == 0:
			return "0"
		case v == 30 && k == kindLinkSpeedExtEnabled:
			return "Extended link speeds disabled"
		case v>>4 != 0:
			return join(linkSpeedsExt.set(v), undefined, v)
		}
		return linkSpeedsExt.set(v)
	case kindLinkSpeedExt2:
		return linkSpeedsExt2.text(v, undefined)
	case kindLinkSpeedExt2Set:
		switch {
		case v>>1 != 0:
			return fmt.Sprintf(" undefined (%d)", v)
		case v == 0:
			return "0"
		}
		return linkSpeedsExt2[1]
	case kindMTU:
		return mtus.text(v, "?(%d)")
	case kindVLCap:
		return vlCaps.text(v, "?(%d)")
	case kindOperVLs:
		return operVLs.text(v, "?(%d)")
	case kindPortCapMask:
		return capNames(capMaskNames, v)
	case kindPortCapMask2:
		return capNames(capMask2Names, v)
	}
	return strconv.FormatUint(v, 10)
}

// DumpOptions select what a dump shows. Nil means the zero value.
type DumpOptions struct {
	ShowKeys bool                    // also show M_Keys
	Omit     func(field *Field) bool // reports whether to leave out a field; nil shows all
}

// Dump returns the fields of an attribute as C's libibmad prints them. Each line has the name of a
// field, dots up to column 33, and the value. Control characters in strings become spaces.
func Dump(a Attribute, o *DumpOptions) string {
	if o == nil {
		o = &DumpOptions{}
	}
	var s strings.Builder
	l := a.attribute()
	for i := range l.Fields {
		f := &l.Fields[i]
		if o.Omit != nil && o.Omit(f) {
			continue
		}
		text := f.Text(a)
		switch {
		case f.Kind == kindMKey && !o.ShowKeys:
			text = "<not displayed>"
		case f.Kind == kindString:
			text = "'" + Printable(text) + "'"
		}
		s.WriteString(f.Name + ":" + strings.Repeat(".", max(0, 32-len(f.Name))) + text + "\n")
	}
	return s.String()
}

// Printable replaces all characters that are not printable ASCII with spaces, as C's tools do in
// node descriptions.
func Printable(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c < ' ' || c > '~' {
			b[i] = ' '
		}
	}
	return string(b)
}

// AppendJSON appends an attribute to b as a JSON object. Its keys are the names that libibmad
// prints, in the order of the attribute. Counts are numbers. Values that C prints in hexadecimal
// are strings, because a JavaScript number can't hold 64 bits. States, widths and speeds are C's words.
func AppendJSON(b []byte, a Attribute, o *DumpOptions) []byte {
	if o == nil {
		o = &DumpOptions{}
	}
	b = append(b, '{')
	l := a.attribute()
	done := make(map[string]bool)
	comma := false
	for i := range l.Fields {
		f := &l.Fields[i]
		if done[f.Array] || o.Omit != nil && o.Omit(f) || f.Kind == kindMKey && !o.ShowKeys {
			continue
		}
		if comma {
			b = append(b, ',')
		}
		comma = true
		if f.Array == "" {
			b = appendQuoted(b, f.Name)
			b = append(b, ':')
			b = f.appendJSON(b, a)
			continue
		}
		done[f.Array] = true
		b = appendQuoted(b, f.Array)
		b = append(b, ":["...)
		for j := i; j < len(l.Fields); j++ {
			if g := &l.Fields[j]; g.Array == f.Array {
				if j > i {
					b = append(b, ',')
				}
				b = g.appendJSON(b, a)
			}
		}
		b = append(b, ']')
	}
	return append(b, '}')
}

func (f *Field) appendJSON(b []byte, a Attribute) []byte {
	switch f.Kind {
	case KindUint:
		return strconv.AppendUint(b, f.Uint(a), 10)
	case kindPortCapMask, kindPortCapMask2:
		return appendQuoted(b, fmt.Sprintf("0x%x", f.Uint(a)))
	}
	return appendQuoted(b, f.Text(a))
}

// appendQuoted appends a string as encoding/json does, which replaces invalid UTF-8 with U+FFFD.
func appendQuoted(b []byte, s string) []byte {
	q, _ := json.Marshal(s) // a string can always be encoded
	return append(b, q...)
}

// ParseJSON sets an attribute from JSON that AppendJSON wrote. Fields that are missing from the
// object become zero, such as M_Keys that were not shown. Unknown keys are ignored. ParseJSON fails
// if a value doesn't fit its field.
func ParseJSON(data []byte, a Attribute) error {
	var object map[string]json.RawMessage
	l := a.attribute()
	if err := json.Unmarshal(data, &object); err != nil {
		return failed("parse", l.Name, "%w", err)
	}
	arrays := make(map[string][]json.RawMessage)
	for i := range l.Fields {
		f := &l.Fields[i]
		f.clear(pointer(a))
		value, ok := object[f.Name]
		if f.Array != "" {
			elements, parsed := arrays[f.Array]
			if raw, given := object[f.Array]; !parsed && given {
				if err := json.Unmarshal(raw, &elements); err != nil {
					return failed("parse", l.Name, "field %s: %w", f.Array, err)
				}
			}
			if ok = len(elements) > 0; ok {
				value, elements = elements[0], elements[1:]
			}
			arrays[f.Array] = elements
		}
		if !ok {
			continue
		}
		if err := f.parseJSON(a, value); err != nil {
			return failed("parse", l.Name, "field %s: %w", f.Name, err)
		}
	}
	return nil
}

func (f *Field) parseJSON(a Attribute, value json.RawMessage) error {
	if f.Kind == KindUint {
		n, err := strconv.ParseUint(string(value), 10, f.Width)
		if err == nil {
			f.set(pointer(a), n)
		}
		return err
	}
	var s string
	if err := json.Unmarshal(value, &s); err != nil {
		return err
	}
	switch f.Kind {
	case kindString:
		if most := f.Width / 8; len(s) > most { // AppendJSON replaced invalid UTF-8 with the longer U+FFFD
			s = strings.ToValidUTF8(s[:most], "")
		}
		f.setText(pointer(a), s)
	case kindArray:
		b, err := hex.DecodeString(s)
		if err != nil {
			return err
		}
		if len(b) != f.Width/8 {
			return fmt.Errorf("%d bytes, not %d", len(b), f.Width/8)
		}
		copy(f.bytes(pointer(a)), b)
	case kindHex, kindMKey, kindPortCapMask, kindPortCapMask2:
		n, err := strconv.ParseUint(s, 0, f.Width)
		if err != nil {
			return err
		}
		f.set(pointer(a), n)
	default:
		n, ok := f.Kind.values(f.Width)[s]
		if !ok {
			return fmt.Errorf("invalid value %q", s)
		}
		f.set(pointer(a), n)
	}
	return nil
}

// valueKey identifies the words of a kind for fields of a width.
type valueKey struct {
	kind  Kind
	width int
}

var (
	valuesMu sync.Mutex
	values   = make(map[valueKey]map[string]uint64)
)

// values maps the words of a kind to their values. It is for fields of at most 8 bits.
func (k Kind) values(width int) map[string]uint64 {
	valuesMu.Lock()
	defer valuesMu.Unlock()
	key := valueKey{k, width}
	if values[key] == nil {
		words := make(map[string]uint64)
		for v := range uint64(1) << width {
			if text := k.text(v, width); text != "" {
				words[text] = v
			}
		}
		values[key] = words
	}
	return values[key]
}
