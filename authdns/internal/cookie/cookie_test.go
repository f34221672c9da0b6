package cookie

import (
	"bytes"
	"encoding/hex"
	"net/netip"
	"testing"
)

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func valid(s *Secret, asked []byte, client netip.Addr, now uint32) bool {
	_, ok := s.check(asked, client, now)
	return ok
}

// TestVectors checks against the test vectors of RFC 9018 appendix A.
func TestVectors(t *testing.T) {
	for _, v := range []struct{ name, secret, client, addr, cookie string }{
		{"A.1 new cookie", "e5e973e5a6b2a43f48e7dc849e37bfcf", "2464c4abcf10c957", "198.51.100.100", "2464c4abcf10c957010000005cf79f111f8130c3eee29480"},
		{"A.4 IPv6", "dd3bdf9344b678b185a6f5cb60fca715", "22681ab97d52c298", "2001:db8:220:1:59de:d0f4:8769:82b8", "22681ab97d52c298010000005cf7c57926556bd0934c72f8"},
	} {
		secret := Secret(unhex(t, v.secret))
		want := unhex(t, v.cookie)
		now := uint32(want[12])<<24 | uint32(want[13])<<16 | uint32(want[14])<<8 | uint32(want[15])
		addr := netip.MustParseAddr(v.addr)
		if got := secret.Append(nil, unhex(t, v.client), addr, now); !bytes.Equal(got, want) {
			t.Errorf("%s: %x, want %x", v.name, got, want)
		}
		if !valid(&secret, want, addr, now) {
			t.Errorf("%s: not valid", v.name)
		}
	}
}

// TestLife walks a cookie through the time limits of RFC 9018 section 4.3 and through every way of not being ours.
func TestLife(t *testing.T) {
	secret, other := Secret{1}, Secret{2}
	addr := netip.MustParseAddr("192.0.2.1")
	const made = 5_000_000
	c := secret.Append(nil, []byte("12345678"), addr, made)
	for _, row := range []struct {
		now         uint32
		valid, kept bool
	}{
		{made, true, true},
		{made + 1799, true, true},
		{made + 1800, true, false},
		{made + 3600, true, false},
		{made + 3601, false, false},
		{made - 300, true, true},
		{made - 301, false, false},
	} {
		if got := valid(&secret, c, addr, row.now); got != row.valid {
			t.Errorf("age %d: valid %t, want %t", int64(row.now)-made, got, row.valid)
		}
		if got := bytes.Equal(secret.Append(nil, c, addr, row.now), c); got != row.kept {
			t.Errorf("age %d: kept %t, want %t", int64(row.now)-made, got, row.kept)
		}
	}
	if valid(&other, c, addr, made) || valid(&secret, c, netip.MustParseAddr("192.0.2.2"), made) || valid(&secret, c[:8], addr, made) {
		t.Error("a cookie of another secret, of another client, or without a server part is taken as ours")
	}
	for i := range c {
		bad := bytes.Clone(c)
		bad[i] ^= 1
		if valid(&secret, bad, addr, made) {
			t.Errorf("octet %d flipped: still valid", i)
		}
	}
}
