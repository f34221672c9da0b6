package edge

import (
	"crypto/tls"
	"fmt"
	"slices"

	"steerpoint/snapshot"
)

// ticketKeys are the keys of session tickets in use. Without any from control the gateway makes its own, which sessions do not
// outlive.
type ticketKeys struct {
	config *tls.Config
	now    [][32]byte
}

// set takes the keys of a snapshot. None leaves those that are in use: control may not be able to open what they are made of.
func (t *ticketKeys) set(secrets *snapshot.EdgeSecrets) error {
	if secrets == nil || len(secrets.Tickets) == 0 {
		return nil
	}
	keys := make([][32]byte, len(secrets.Tickets))
	for i := range keys {
		var err error
		if keys[i], err = secrets.Tickets[i].Key(); err != nil {
			return fmt.Errorf("session tickets: %w", err)
		}
	}
	if !slices.Equal(keys, t.now) {
		t.config.SetSessionTicketKeys(keys)
		t.now = keys
	}
	return nil
}
