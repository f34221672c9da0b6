package snapshot

import (
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"steerpoint/internal/hidden"
)

// EdgeChallenge is what a gateway answers to GET http://Host/.well-known/acme-challenge/Token.
type EdgeChallenge struct {
	Host  string `json:"host"` // lower case
	Token string `json:"token"`
	Value string `json:"value"` // the body: the key authorization
}

// EdgeTicketKey is a key of TLS session tickets.
type EdgeTicketKey struct {
	Secret Carried `json:"secret"` // base64, of 32 bytes
}

// TicketPeriod is how long a key makes tickets. A session can be resumed for one to two of them: that is how long the key by
// which a TLS 1.2 session could be read later is worth keeping from everybody.
const TicketPeriod = 24 * time.Hour

// TicketKeysAt are the ticket keys at a time, made from one master: that of the day, which makes new ones, of the day before and
// of the next, for the tickets of gateways that are a snapshot ahead or whose clock is.
func TicketKeysAt(master []byte, now time.Time) ([]EdgeTicketKey, error) {
	if len(master) < 16 {
		return nil, errors.New("the master of ticket keys is too short")
	}
	day := now.Unix() / int64(TicketPeriod/time.Second)
	var out []EdgeTicketKey
	for _, d := range []int64{day, day - 1, day + 1} {
		key, err := hkdf.Key(sha256.New, master, nil, fmt.Sprintf("steerpoint tls session ticket v1 %d", d), 32)
		if err != nil {
			return nil, fmt.Errorf("ticket keys: %w", err)
		}
		out = append(out, EdgeTicketKey{Carried{Text: hidden.New(base64.StdEncoding.EncodeToString(key))}})
	}
	return out, nil
}

// Key is the key itself.
func (k EdgeTicketKey) Key() (key [32]byte, err error) {
	b, err := base64.StdEncoding.DecodeString(k.Secret.Reveal())
	if err != nil || len(b) != len(key) {
		return key, errors.New("a key of session tickets is not of 32 bytes in base64")
	}
	copy(key[:], b)
	return key, nil
}
