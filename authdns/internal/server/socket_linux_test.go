package server

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

func controlMessage(level, kind int32, data []byte) []byte {
	b := make([]byte, unix.CmsgSpace(len(data)))
	h := (*unix.Cmsghdr)(unsafe.Pointer(&b[0]))
	h.Level, h.Type = level, kind
	h.SetLen(unix.CmsgLen(len(data)))
	copy(b[unix.CmsgLen(0):], data)
	return b
}

// TestReplyFrom: the address asked becomes the source; the interface is kept only where the address needs it; anything
// else is left to the kernel.
func TestReplyFrom(t *testing.T) {
	four := make([]byte, unix.SizeofInet4Pktinfo)
	binary.NativeEndian.PutUint32(four, 7)
	copy(four[4:], []byte{127, 0, 0, 9})
	six := func(addr string) []byte {
		b := append(netip.MustParseAddr(addr).AsSlice(), 0, 0, 0, 0)
		binary.NativeEndian.PutUint32(b[16:], 7)
		return b
	}
	data := unix.CmsgLen(0)
	if got := replyFrom(controlMessage(unix.IPPROTO_IP, unix.IP_PKTINFO, four)); got == nil ||
		binary.NativeEndian.Uint32(got[data:]) != 0 || !bytes.Equal(got[data+4:data+8], []byte{127, 0, 0, 9}) {
		t.Errorf("IPv4: %x", got)
	}
	for addr, want := range map[string]uint32{"2001:db8::1": 0, "fe80::1": 7} {
		got := replyFrom(controlMessage(unix.IPPROTO_IPV6, unix.IPV6_PKTINFO, six(addr)))
		if got == nil || binary.NativeEndian.Uint32(got[data+16:]) != want || !bytes.Equal(got[data:data+16], six(addr)[:16]) {
			t.Errorf("%s: %x", addr, got)
		}
	}
	for name, oob := range map[string][]byte{
		"nothing": nil, "too short": make([]byte, 5), "another kind": controlMessage(unix.SOL_SOCKET, unix.SO_TIMESTAMP, four),
		"cut": controlMessage(unix.IPPROTO_IPV6, unix.IPV6_PKTINFO, six("::1"))[:data+8],
	} {
		if got := replyFrom(oob); got != nil {
			t.Errorf("%s: %x", name, got)
		}
	}
}
