#!/usr/bin/env bash
# qemu-aarch64 gives a SIGBUS the address of the thread's last SIGSEGV.
#
# qemu-user-static 7.2 (Debian 12). A store to a page behind the end of a mapped file raises SIGBUS.
# On arm64 a handler can read the address in siginfo and in the signal context, and Go reads the
# context. There qemu-user 7.2 has the address of the last SIGSEGV of the same thread, or 0 if it had
# none. So debug.SetPanicOnFault reports a nil pointer that nobody dereferenced, or the address of some
# other memory. The same program for amd64, on the machine itself, gets the right address.
#
# Seen, for stores to a file of length 0, to protected memory, and to the file again:
#   amd64: file: the address stored to
#   amd64: protected: the address stored to
#   amd64: file: the address stored to
#   arm64: file: runtime error: invalid memory address or nil pointer dereference
#   arm64: protected: the address stored to
#   arm64: file: the address of protected
set -euo pipefail
script=$(realpath "$0")
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT; cd "$dir"
apt-get download -qq qemu-user-static=1:7.2+dfsg-7+deb12u18+b3 2>/dev/null
dpkg-deb -x *.deb .
cat > main.go <<EOF
package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"syscall"
	"unsafe"
)

var file, protected []byte

func store(b []byte) (s any) {
	defer func() {
		p := recover()
		a, ok := p.(interface{ Addr() uintptr })
		switch s = p; {
		case !ok:
		case a.Addr() == uintptr(unsafe.Pointer(&b[0])):
			s = "the address stored to"
		case a.Addr() == uintptr(unsafe.Pointer(&protected[0])):
			s = "the address of protected"
		}
	}()
	b[0] = 1
	return "no fault"
}

func main() {
	runtime.LockOSThread() // qemu-user keeps the address for each thread
	debug.SetPanicOnFault(true)
	f, err := os.Create("file")
	if err != nil {
		panic(err)
	}
	if file, err = syscall.Mmap(int(f.Fd()), 0, 4096, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED); err != nil {
		panic(err)
	}
	if protected, err = syscall.Mmap(-1, 0, 4096, syscall.PROT_NONE, syscall.MAP_PRIVATE|syscall.MAP_ANON); err != nil {
		panic(err)
	}
	fmt.Println("file:", store(file))
	fmt.Println("protected:", store(protected))
	fmt.Println("file:", store(file))
}
EOF
export CGO_ENABLED=0
for arch in amd64 arm64; do
	GOARCH=$arch go build -o try-$arch main.go
done
{
	./try-amd64 | sed 's/^/amd64: /'
	usr/bin/qemu-aarch64-static ./try-arm64 | sed 's/^/arm64: /'
} | tee out
sed -n "/^# Seen/,/^set/s/^#   //p" "$script" | diff - out
