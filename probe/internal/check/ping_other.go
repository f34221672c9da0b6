//go:build !linux

package check

import (
	"errors"
	"fmt"
	"net/netip"
)

// pingSocket is for Linux; elsewhere a raw socket is used.
func pingSocket(netip.Addr) (pinger, error) {
	return nil, fmt.Errorf("ping socket: %w", errors.ErrUnsupported)
}
