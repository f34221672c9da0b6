package snapshot

import (
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"steerpoint/internal/hidden"
)

// CookieSecret is a key of DNS cookies (RFC 9018). It does not show, but travels: only its JSON holds it, which goes into an
// envelope.
type CookieSecret [16]byte

// CookieSecrets are the keys all name servers of a cluster share at one time.
type CookieSecrets struct {
	Sign CookieSecret `json:"sign"`
	// Accept are the one before and the one after Sign.
	Accept []CookieSecret `json:"accept"`
}

// CookiePeriod is how long cookies are made by one secret (RFC 7873 section 7.1 wants 26 hours at most; the life of a cookie
// is an hour).
const CookiePeriod = 24 * time.Hour

// CookiesAt are the secrets at a time, all of them made from one master of at least 16 octets. Each belongs to its day, so
// that whoever has the master makes the same, and whoever has those of one day does not have those of others.
//
// Nobody has to wait for anybody when the day changes: a server that has the secrets of yesterday, because it has not
// heard of today, and one that has those of today take each other's cookies.
func CookiesAt(master []byte, now time.Time) (*CookieSecrets, error) {
	day := now.Unix() / int64(CookiePeriod/time.Second)
	var c CookieSecrets
	c.Accept = make([]CookieSecret, 2)
	for d, s := range map[int64]*CookieSecret{day - 1: &c.Accept[0], day: &c.Sign, day + 1: &c.Accept[1]} {
		info := binary.BigEndian.AppendUint64([]byte("steerpoint dns cookie v1 "), uint64(d))
		key, err := hkdf.Key(sha256.New, master, nil, string(info), len(s))
		if err != nil {
			return nil, fmt.Errorf("cookie secret: %w", err)
		}
		copy(s[:], key)
	}
	return &c, nil
}

// NextCookies is when the secrets change next after now.
func NextCookies(now time.Time) time.Time {
	return now.Truncate(CookiePeriod).Add(CookiePeriod)
}

// Equal reports whether two are the same.
func (c *CookieSecrets) Equal(o *CookieSecrets) bool {
	if c == nil || o == nil {
		return c == o
	}
	return c.Sign == o.Sign && slices.Equal(c.Accept, o.Accept)
}

// Format says that nothing is said, whatever the verb: it is called for a pointer in a struct too, which the secrets' own is
// not.
func (CookieSecrets) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, hidden.Mark) } // fmt keeps the error itself

// String says that nothing is said.
func (CookieSecret) String() string { return hidden.Mark }

// Format writes the same, whatever the verb.
func (CookieSecret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, hidden.Mark) } // fmt keeps the error itself

// LogValue is the same.
func (CookieSecret) LogValue() slog.Value { return slog.StringValue(hidden.Mark) }

// MarshalText gives the secret itself, in base64.
func (c CookieSecret) MarshalText() ([]byte, error) {
	return base64.StdEncoding.AppendEncode(nil, c[:]), nil
}

// UnmarshalText takes it in again.
func (c *CookieSecret) UnmarshalText(text []byte) error {
	b, err := base64.StdEncoding.DecodeString(string(text))
	if err != nil || len(b) != len(c) {
		return fmt.Errorf("a cookie secret has %d octets in base64", len(c)) // nothing of it is said
	}
	copy(c[:], b)
	return nil
}
