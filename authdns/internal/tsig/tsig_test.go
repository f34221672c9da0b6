package tsig

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

const now = 1_800_000_000

func testKey(a Algorithm) *Key {
	return &Key{Name: []byte("\x04xfer\x07example\x00"), Algorithm: a, Secret: []byte("an agreed secret of 32 octets ..")}
}

func query(t *testing.T) []byte {
	t.Helper()
	m := new(dns.Msg).SetAxfr("Example.NET.")
	m.Id = 0xBEEF
	m.SetEdns0(4096, false)
	b, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func mustFind(t *testing.T, msg []byte) *Record {
	t.Helper()
	r, err := Find(msg)
	if err != nil || r == nil {
		t.Fatalf("no record: %v", err)
	}
	return r
}

// secretText is a key's secret as the library wants it.
func secretText(k *Key) string { return base64.StdEncoding.EncodeToString(k.Secret) }

// TestAgreesWithTheLibrary signs what another implementation verifies, and verifies what it signs: requests, replies and
// the messages of a stream, by each algorithm.
//
// Covers: issue5 tsig, rfc 8945 agrees
func TestAgreesWithTheLibrary(t *testing.T) {
	at := uint64(time.Now().Unix()) // the library reads the clock
	for a := SHA256; a <= SHA512; a++ {
		k := testKey(a)
		s := Request(k)
		msg := s.Append(query(t), 0, at)
		if err := dns.TsigVerify(bytes.Clone(msg), secretText(k), "", false); err != nil {
			t.Errorf("%v: our request: %v", a, err)
		}
		m := new(dns.Msg).SetAxfr("example.net.")
		m.SetTsig("xfer.example.", a.String()+".", Fudge, int64(at))
		theirs, mac, err := dns.TsigGenerate(m, secretText(k), "", false)
		if err != nil {
			t.Fatal(err)
		}
		r := mustFind(t, theirs)
		if code, err := r.Verify(theirs, k, nil, at); code != NoError || err != nil {
			t.Errorf("%v: their request: %d, %v", a, code, err)
		}
		if hex.EncodeToString(r.MAC) != mac {
			t.Errorf("%v: another MAC was read", a)
		}
		reply, prior := Reply(k, r), mac
		verify := NewStream(k, r.MAC)
		for i := range 3 {
			out := reply.Append(append([]byte("xx"), query(t)...), 2, at)[2:]
			if err := dns.TsigVerify(bytes.Clone(out), secretText(k), prior, i > 0); err != nil {
				t.Errorf("%v: message %d of our reply: %v", a, i, err)
			}
			if !verify.Verify(out, at) {
				t.Errorf("%v: our own reply is refused at message %d", a, i)
			}
			prior = hex.EncodeToString(reply.MAC())
		}
	}
}

// TestVerify: every octet counts, clocks may be 300 s apart and no more, and a MAC cut short is refused by its own code.
//
// Covers: issue5 tsig, rfc 8945 clocks, rfc 8945 errors
func TestVerify(t *testing.T) {
	k := testKey(SHA256)
	msg := Request(k).Append(query(t), 0, now)
	for _, row := range []struct {
		at   uint64
		code uint16
	}{{now, NoError}, {now + 300, NoError}, {now - 300, NoError}, {now + 301, BadTime}, {now - 301, BadTime}} {
		if code, err := mustFind(t, msg).Verify(msg, k, nil, row.at); code != row.code || err != nil {
			t.Errorf("at %d: %d, %v; want %d", row.at, code, err, row.code)
		}
	}
	for i := range msg {
		bad := bytes.Clone(msg)
		bad[i] ^= 1
		r, err := Find(bad)
		if err != nil || r == nil || !r.Uses(k) {
			continue // it is no signature by this key any more
		}
		if code, err := r.Verify(bad, k, nil, now); code == NoError && err == nil {
			// The ID on the wire is not signed: the one in the record is.
			if i > 1 {
				t.Errorf("octet %d changed, and nobody noticed", i)
			}
		}
	}
	other := testKey(SHA256)
	other.Secret = []byte("another")
	if code, _ := mustFind(t, msg).Verify(msg, other, nil, now); code != BadSig {
		t.Errorf("another secret: %d", code)
	}
	for _, row := range []struct {
		keep int
		code uint16
		err  error
	}{{16, BadTrunc, nil}, {31, BadTrunc, nil}, {15, NoError, ErrForm}, {0, NoError, ErrForm}} {
		r := mustFind(t, msg)
		r.MAC = r.MAC[:row.keep]
		if code, err := r.Verify(msg, k, nil, now); code != row.code || !errors.Is(err, row.err) {
			t.Errorf("MAC of %d octets: %d, %v", row.keep, code, err)
		}
	}
}

// TestErrorsAreToldRight: BADTIME and BADTRUNC are signed, and BADTIME tells our time; BADKEY and BADSIG are not signed.
//
// Covers: issue5 tsig, rfc 8945 errors
func TestErrorsAreToldRight(t *testing.T) {
	k := testKey(SHA512)
	msg := Request(k).Append(query(t), 0, now-1000)
	r := mustFind(t, msg)
	reply := mustFind(t, Reply(k, r).AppendError(query(t), 0, BadTime, r, now))
	if reply.Error != BadTime || reply.Time != now-1000 || time48(reply.Other) != now || len(reply.MAC) != 64 {
		t.Errorf("BADTIME: %+v", reply)
	}
	signed := Reply(k, r).AppendError(query(t), 0, BadTime, r, now)
	if code, err := mustFind(t, signed).Verify(signed, k, r.MAC, now-1000); code != NoError || err != nil {
		t.Errorf("BADTIME is not signed well: %d, %v", code, err)
	}
	if r := mustFind(t, AppendUnsigned(query(t), 0, BadKey, r)); r.Error != BadKey || len(r.MAC) != 0 || !r.Uses(k) {
		t.Errorf("BADKEY: %+v", r)
	}
}

// TestFindRefuses: a record that is not the last, stands twice, is cut or compressed is malformed; a message without one is
// not signed.
//
// Covers: issue5 tsig, rfc 8945 last
func TestFindRefuses(t *testing.T) {
	k := testKey(SHA256)
	plain := query(t)
	signed := Request(k).Append(bytes.Clone(plain), 0, now)
	if r, err := Find(plain); r != nil || err != nil {
		t.Errorf("not signed: %v, %v", r, err)
	}
	twice := Request(k).Append(bytes.Clone(signed), 0, now)
	last := append(bytes.Clone(signed), 0, 0, 16, 0, 1, 0, 0, 0, 0, 0, 0)
	binary.BigEndian.PutUint16(last[10:], 3)
	answer := bytes.Clone(signed)
	binary.BigEndian.PutUint16(answer[6:], 2)
	binary.BigEndian.PutUint16(answer[10:], 0)
	for what, msg := range map[string][]byte{
		"twice": twice, "not the last": last, "in the answer": answer, "short": signed[:8], "trailing": append(bytes.Clone(signed), 1),
	} {
		if r, err := Find(msg); !errors.Is(err, ErrForm) {
			t.Errorf("%s: %+v, %v", what, r, err)
		}
	}
	for n := range signed {
		if r, err := Find(signed[:n]); err == nil && r != nil {
			t.Errorf("cut to %d octets it is still signed", n)
		}
	}
}

// TestAlgorithms: the weak ones are none.
//
// Covers: issue5 tsig
func TestAlgorithms(t *testing.T) {
	for _, name := range strings.Fields("hmac-sha1 hmac-md5.sig-alg.reg.int hmac-sha224 gss-tsig none HMAC-SHA256") {
		if a, ok := AlgorithmOf(name); ok {
			t.Errorf("%s is %v", name, a)
		}
	}
	for a := SHA256; a <= SHA512; a++ {
		if got, ok := AlgorithmOf(a.String()); !ok || got != a {
			t.Errorf("%v", a)
		}
		k := testKey(a)
		msg := query(t)
		r := mustFind(t, Request(k).Append(bytes.Clone(msg), 0, now))
		if n := len(Reply(k, r).AppendError(bytes.Clone(msg), 0, BadTime, r, now)) - len(msg); n != k.Size() {
			t.Errorf("%v adds %d octets, Size says %d", a, n, k.Size())
		}
	}
}
