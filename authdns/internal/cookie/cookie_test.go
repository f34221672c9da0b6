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
	return NewKeys(Set{Sign: *s}).Check(asked, client, now) != Unknown
}

// answered is the cookie that a query with asked is answered with.
func answered(s *Secret, asked []byte, client netip.Addr, now uint32) []byte {
	k := NewKeys(Set{Sign: *s})
	return k.Append(nil, asked, client, now, k.Check(asked, client, now))
}

// TestVectors checks against the test vectors of RFC 9018 appendix A.
//
// Covers: rfc 9018 vectors
func TestVectors(t *testing.T) {
	for _, v := range []struct{ name, secret, client, addr, cookie string }{
		{"A.1 new cookie", "e5e973e5a6b2a43f48e7dc849e37bfcf", "2464c4abcf10c957", "198.51.100.100", "2464c4abcf10c957010000005cf79f111f8130c3eee29480"},
		{"A.4 IPv6", "dd3bdf9344b678b185a6f5cb60fca715", "22681ab97d52c298", "2001:db8:220:1:59de:d0f4:8769:82b8", "22681ab97d52c298010000005cf7c57926556bd0934c72f8"},
	} {
		secret := Secret(unhex(t, v.secret))
		want := unhex(t, v.cookie)
		now := uint32(want[12])<<24 | uint32(want[13])<<16 | uint32(want[14])<<8 | uint32(want[15])
		addr := netip.MustParseAddr(v.addr)
		if got := answered(&secret, unhex(t, v.client), addr, now); !bytes.Equal(got, want) {
			t.Errorf("%s: %x, want %x", v.name, got, want)
		}
		if !valid(&secret, want, addr, now) {
			t.Errorf("%s: not valid", v.name)
		}
	}
}

// TestLife walks a cookie through the time limits of RFC 9018 section 4.3 and through every way of not being ours.
//
// Covers: rfc 9018 life
func TestLife(t *testing.T) {
	secret, other := Secret{1}, Secret{2}
	addr := netip.MustParseAddr("192.0.2.1")
	const made = 5_000_000
	c := answered(&secret, []byte("12345678"), addr, made)
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
		if got := bytes.Equal(answered(&secret, c, addr, row.now), c); got != row.kept {
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

// TestRollover: while the servers of one name change from a secret to the next one by one, each takes the cookies of all
// others, and no client has to begin anew.
//
// Covers: field 55, issue5 cookies, rfc 9018 secrets
func TestRollover(t *testing.T) {
	addr := netip.MustParseAddr("2001:db8::1")
	const now = 7_000_000
	secrets := [5]Secret{{1}, {2}, {3}, {4}, {5}}
	at := func(i int) *Keys {
		return NewKeys(Set{Sign: secrets[i], Accept: []Secret{secrets[i-1], secrets[i+1]}})
	}
	behind, ahead := at(1), at(2)
	client := []byte("abcdefgh")
	old := behind.Append(nil, client, addr, now, Unknown)
	if got := ahead.Check(old, addr, now+10); got != Valid {
		t.Errorf("the server ahead: %d, want valid", got)
	}
	next := ahead.Append(nil, old, addr, now+10, Valid)
	if bytes.Equal(next, old) || ahead.Check(next, addr, now+20) != Fresh {
		t.Error("the client was not given a cookie by the secret in use")
	}
	if got := behind.Check(next, addr, now+20); got != Valid {
		t.Errorf("the server behind: %d, want valid", got)
	}
	if got := at(3).Check(old, addr, now+10); got != Unknown {
		t.Errorf("two secrets later: %d, want unknown", got)
	}
	behind.Use(Set{Sign: secrets[3]})
	if behind.Check(old, addr, now+10) != Unknown {
		t.Error("a secret that is gone still counts")
	}
}

// TestNothingIsAllocated: neither for a check nor for a cookie.
//
// Covers: issue5 cookies
func TestNothingIsAllocated(t *testing.T) {
	k, addr := NewKeys(Set{Accept: []Secret{{1}, {2}}}), netip.MustParseAddr("192.0.2.1")
	c := k.Append(nil, []byte("abcdefgh"), addr, 100, Unknown)
	buf := make([]byte, 0, 64)
	if n := testing.AllocsPerRun(100, func() { k.Append(buf, c, addr, 3000, k.Check(c, addr, 3000)) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
