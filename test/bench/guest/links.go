//go:build linux

package main

import (
	"fmt"
	"strings"
)

// A link is an RDMA device on its own dummy interface. Both ends of an exchange use it.
type link struct {
	driver string // siw or rxe
	name   string // name of the device
	addr   string // IPv4
	gid    string // index of the GID of addr
}

var drivers = []string{"siw", "rxe"}

// link returns the link of a driver. The first call for a driver creates the link.
func (b *bench) link(driver string) (*link, error) {
	if l := b.links[driver]; l != nil {
		return l, nil
	}
	l := &link{driver: driver, name: "gb" + driver, addr: map[string]string{"siw": "10.91.0.1", "rxe": "10.92.0.1"}[driver]}
	if l.addr == "" {
		return nil, fmt.Errorf("no link of driver %q", driver)
	}
	script := fmt.Sprintf(`set -e
		ip link add gb%[1]sdev type dummy
		ip addr add %[2]s/24 dev gb%[1]sdev
		ip link set gb%[1]sdev up
		%[3]s add gb%[1]s type %[1]s netdev gb%[1]sdev`, driver, l.addr, b.program("rdmalink"))
	if _, err := b.output("sh", "-c", script); err != nil {
		return nil, err
	}
	if err := b.findGID(l); err != nil {
		return nil, err
	}
	b.links[driver] = l
	return l, nil
}

// listeners returns the number of IDs on l that listen. IDs that are only bound don't count, because
// they reject a client, and perftest's client then crashes.
func (b *bench) listeners(l *link) (n int, err error) {
	text, err := b.output("rdma", "resource", "show", "cm_id", "link", l.name)
	return strings.Count(string(text), " state LISTEN "), err
}

// findGID finds the index of the GID with l's address. iWARP's GIDs don't contain addresses.
func (b *bench) findGID(l *link) error {
	if l.driver == "siw" {
		l.gid = "0"
		return nil
	}
	var ip [4]byte
	if _, err := fmt.Sscanf(l.addr, "%d.%d.%d.%d", &ip[0], &ip[1], &ip[2], &ip[3]); err != nil {
		return err
	}
	tail := fmt.Sprintf("ffff:%02x%02x:%02x%02x", ip[0], ip[1], ip[2], ip[3])
	text, err := b.output("grep", "-rl", tail, "/sys/class/infiniband/"+l.name+"/ports/1/gids/")
	if err != nil {
		return fmt.Errorf("find the GID of %s: %w", l.addr, err)
	}
	path := strings.TrimSpace(string(text))
	l.gid = path[strings.LastIndexByte(path, '/')+1:]
	return nil
}
