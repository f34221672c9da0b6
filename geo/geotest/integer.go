package geotest

import (
	"math/big"
	"net/netip"
)

// integer writes an address as a decimal number.
func integer(a netip.Addr) string { return new(big.Int).SetBytes(a.AsSlice()).String() }
