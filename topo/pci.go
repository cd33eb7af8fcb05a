package topo

import (
	"encoding/binary"
	"regexp"
	"strings"
)

// The models that rdma_topo knows.
const (
	modelGrace      = "grace_rp"
	modelVera       = "vera_rp"
	modelNIC        = "cx_nic"
	modelDMA        = "cx_dma"
	modelSwitch     = "cx_switch"
	modelGPU        = "nvgpu"
	modelNVMe       = "nvme"
	modelBridge     = "bridge"
	modelGenericRP  = "generic_rp"
	rootPort        = "_rp"
	nvidiaVendor    = "000010DE"
	mellanoxVendor  = "000015B3"
	bridgeClass     = "060400"
	nvmeClass       = "010802"
	controllerClass = "0302" // 3D controllers
	acceleratorPCI  = "1200" // processing accelerators
)

var models = map[string]string{
	nvidiaVendor + "000022B1": modelGrace, nvidiaVendor + "000022B2": modelGrace, nvidiaVendor + "000022B8": modelGrace,
	nvidiaVendor + "00002F95": modelVera, nvidiaVendor + "00002F96": modelVera,
	mellanoxVendor + "00001021": modelNIC,     // ConnectX-7
	mellanoxVendor + "00001023": modelNIC,     // ConnectX-8
	mellanoxVendor + "00001025": modelNIC,     // ConnectX-9
	mellanoxVendor + "0000A2DC": "bf3_nic",    // BlueField-3
	mellanoxVendor + "00002100": modelDMA,     // of ConnectX-8
	mellanoxVendor + "0000197B": "bf3_switch", // the ports of the switch in a BlueField-3
	mellanoxVendor + "0000197C": modelSwitch,  // those of the one in a ConnectX
	mellanoxVendor + "00001979": modelSwitch,
}

// modaliasPattern has the vendor, the device and the class.
var modaliasPattern = regexp.MustCompile(`^pci:v([0-9A-F]{8})d([0-9A-F]{8})sv[0-9A-F]{8}sd[0-9A-F]{8}bc([0-9A-F]{2})sc([0-9A-F]{2})i([0-9A-F]{2})$`)

// parts returns the vendor, the device and the class of a modalias, all empty if it is none.
func parts(modalias string) (vendor, device, class string) {
	if m := modaliasPattern.FindStringSubmatch(modalias); m != nil {
		return m[1], m[2], m[3] + m[4] + m[5]
	}
	return "", "", ""
}

// model returns rdma_topo's word for a function, or "".
func model(modalias string, hasParent bool) string {
	vendor, device, class := parts(modalias)
	if m := models[vendor+device]; m != "" {
		return m
	}
	switch {
	case class == nvmeClass:
		return modelNVMe
	case vendor == nvidiaVendor && strings.HasPrefix(class, "03"):
		return modelGPU
	case class == bridgeClass && !hasParent:
		return modelGenericRP
	case class == bridgeClass:
		return modelBridge
	}
	return ""
}

func kind(modalias, model string) Kind {
	vendor, _, class := parts(modalias)
	switch {
	case model == modelDMA:
		return DataDirect
	case model == modelNIC || model == "bf3_nic":
		return NIC
	case class == nvmeClass:
		return NVMe
	case class == bridgeClass:
		return Bridge
	case strings.HasPrefix(class, controllerClass), strings.HasPrefix(class, acceleratorPCI):
		return GPU
	case strings.HasPrefix(class, "03") && (vendor == nvidiaVendor || vendor == "00001002" || vendor == "00008086"):
		return GPU
	}
	return Other
}

// hasATS reports whether a configuration space has the capability of Address Translation Services. Without privileges,
// only its first 64 bytes can be read, which have no such capability.
func hasATS(config []byte) bool {
	const ats = 0x0f
	for off := 0x100; off < len(config)-4; {
		header := binary.LittleEndian.Uint32(config[off:])
		if header&0xffff == ats {
			return true
		}
		next := int(header >> 20 & 0xffc)
		if next <= off+4 {
			return false
		}
		off = next
	}
	return false
}

// parseVPD returns the V3, the name and the serial number in a function's vital product data. What follows an entry
// that is not ASCII is ignored.
func parseVPD(b []byte) (v3, name, sn string) {
	const (
		endSmall, endLarge = 0x78, 0x79
		large              = 0x80
		identifier         = 0x82
		readOnly           = 0x90
	)
	for len(b) > 0 && b[0] != endSmall && b[0] != endLarge {
		tag, header, n := b[0], 1, int(b[0]&7)
		if tag&large != 0 {
			if header = 3; len(b) < header {
				break
			}
			n = int(binary.LittleEndian.Uint16(b[1:]))
		}
		if n > len(b)-header {
			break
		}
		item := b[header : header+n]
		b = b[header+n:]
		switch tag {
		case identifier:
			if !isASCII(item) {
				return v3, name, sn
			}
			name = strings.TrimSpace(string(item))
		case readOnly:
			for len(item) >= 4 {
				key, n := item[:2], int(item[2])
				if n > len(item)-3 {
					break
				}
				value := item[3 : 3+n]
				item = item[3+n:]
				isWanted := string(key) == "V3" || string(key) == "SN"
				if !isASCII(key) || isWanted && !isASCII(value) {
					return v3, name, sn
				}
				switch string(key) {
				case "V3":
					v3 = string(value)
				case "SN":
					sn = string(value)
				}
			}
		}
	}
	return v3, name, sn
}

func isASCII(b []byte) bool {
	for _, c := range b {
		if c > 0x7f {
			return false
		}
	}
	return true
}
