//go:build linux

package rig

import (
	"strings"
	"testing"
)

func TestValkeyVersion(t *testing.T) {
	if v, err := valkeyVersion("Package: valkey\nVersion: 9.1.2-1\n\nPackage: valkey\nVersion: 9.1.10-1\nStandards-Version: 9.1.11\n"); v != "9.1.10-1" || err != nil {
		t.Error(v, err)
	}
	if v, err := valkeyVersion("Version: 10.0.1-1\n"); v != "" || err == nil || !strings.Contains(err.Error(), "sid has moved on to 10.0.1-1: name a newer series") {
		t.Error(v, err)
	}
}
