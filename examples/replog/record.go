package main

import (
	"encoding/binary"
	"hash/crc32"
)

// A record in memory is a header and its data, padded to a multiple of 8 bytes:
//
//	bytes  0 to 3   length of the data
//	       4 to 7   CRC-32C of all that follows, and of the length
//	       8 to 15  epoch: which leader wrote it
//	      16 on     data
//
// A WRITE may become visible in any order. A record with a wrong CRC is not complete.
type record struct {
	epoch uint64
	data  []byte
}

const header = 16

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// size returns the number of bytes of a record in memory.
func (r record) size() int { return (header + len(r.data) + 7) &^ 7 }

// put writes a record.
func (r record) put(b []byte) {
	binary.BigEndian.PutUint32(b, uint32(len(r.data)))
	binary.BigEndian.PutUint64(b[8:], r.epoch)
	copy(b[header:], r.data)
	binary.BigEndian.PutUint32(b[4:], sum(b, len(r.data)))
}

func sum(b []byte, length int) uint32 {
	return crc32.Update(crc32.Checksum(b[:4], castagnoli), castagnoli, b[8:header+length])
}

// scan reads the records of a log, up to the first that is not whole. Epochs never fall: a
// record of an older one is left from a log that was longer.
func scan(log []byte) (all []record) {
	var epoch uint64
	for at := 0; at+header <= len(log); {
		b := log[at:]
		length := binary.BigEndian.Uint32(b)
		if length == 0 || uint64(length) > uint64(len(b)-header) || binary.BigEndian.Uint32(b[4:]) != sum(b, int(length)) {
			break
		}
		r := record{binary.BigEndian.Uint64(b[8:]), append([]byte(nil), b[header:header+length]...)}
		if r.epoch < epoch {
			break
		}
		epoch = r.epoch
		all = append(all, r)
		at += r.size()
	}
	return all
}

// newer compares two logs for a new leader: the log of a later leader wins, then the longer one.
func newer(a, b []record) bool {
	last := func(log []record) (epoch uint64) {
		if len(log) > 0 {
			epoch = log[len(log)-1].epoch
		}
		return epoch
	}
	return last(a) > last(b) || last(a) == last(b) && len(a) > len(b)
}
