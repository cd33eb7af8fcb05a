module github.com/goverbs/goverbs

go 1.25.0

require (
	github.com/google/go-cmp v0.7.0
	github.com/vishvananda/netlink v1.3.1
	golang.org/x/net v0.58.0
	golang.org/x/sys v0.47.0
)

require github.com/vishvananda/netns v0.0.5 // indirect
