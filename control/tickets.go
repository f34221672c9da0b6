package control

import (
	"time"

	"steerpoint/snapshot"
)

// ticketKeys are the keys of TLS session tickets, made from what DNS cookies are made of, so that a session is resumed at any
// gateway, and after a restart. While that cannot be had, each gateway makes its own.
func (k *cookies) ticketKeys(now time.Time) []snapshot.EdgeTicketKey {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.master == nil {
		return nil
	}
	keys, err := snapshot.TicketKeysAt(k.master, now)
	if err != nil {
		return nil // the master is too short to be one of ours
	}
	return keys
}
