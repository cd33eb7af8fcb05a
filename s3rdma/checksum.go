package s3rdma

import (
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"hash/crc64"
	"net/http"
	"strings"
	"sync"
)

const (
	checksumPrefix = "X-Amz-Checksum-"
	checksumCRC64  = checksumPrefix + "Crc64nvme"
	checksumCRC32C = checksumPrefix + "Crc32c"
	checksumCRC32  = checksumPrefix + "Crc32" // what aws-sdk-go-v2 sends unless told otherwise
	checksumMode   = checksumPrefix + "Mode"
)

var (
	crc64NVMe  = sync.OnceValue(func() *crc64.Table { return crc64.MakeTable(0x9a6c9329ac4bc9b5) })
	castagnoli = sync.OnceValue(func() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) })
)

// checksums has the headers of checksums, and what computes their values.
var checksums = map[string]func([]byte) string{checksumCRC64: crc64Of, checksumCRC32C: crc32cOf, checksumCRC32: crc32Of}

func crc64Of(b []byte) string {
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint64(nil, crc64.Checksum(b, crc64NVMe())))
}

func crc32cOf(b []byte) string { return base64Of(crc32.Checksum(b, castagnoli())) }

func crc32Of(b []byte) string { return base64Of(crc32.ChecksumIEEE(b)) }

func base64Of(sum uint32) string {
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, sum))
}

// checkSums compares data with the checksums of a request. It returns the name of the header that does not fit, or "".
func checkSums(h http.Header, b []byte) string {
	for name, sum := range checksums {
		if want := h.Get(name); want != "" && want != sum(b) {
			return name
		}
	}
	return ""
}

// checksumsOf returns the names of the headers that have a checksum of the body, of any kind.
func checksumsOf(h http.Header) []string {
	var names []string
	for name := range h {
		switch {
		case !strings.HasPrefix(name, checksumPrefix), name == checksumMode, name == checksumPrefix+"Algorithm", name == checksumPrefix+"Type":
		default:
			names = append(names, name)
		}
	}
	return names
}
