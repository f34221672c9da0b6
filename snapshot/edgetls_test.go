package snapshot

import (
	"bytes"
	"testing"
	"time"
)

// The key of today makes tickets, that of yesterday and of tomorrow open them: over a whole day, and to either side of
// midnight, each key of a gateway that is a day ahead or behind is known.
//
// Covers: issue6 tickets
func TestTicketKeysOverlap(t *testing.T) {
	master := bytes.Repeat([]byte{7}, 32)
	at := func(now time.Time) (out [3][32]byte) {
		t.Helper()
		keys, err := TicketKeysAt(master, now)
		if err != nil || len(keys) != 3 {
			t.Fatal(keys, err)
		}
		for i := range keys {
			if out[i], err = keys[i].Key(); err != nil {
				t.Fatal(err)
			}
		}
		return out
	}
	midnight := time.Date(2026, 3, 4, 0, 0, 0, 0, time.UTC)
	today, tonight, tomorrow := at(midnight), at(midnight.Add(24*time.Hour-time.Second)), at(midnight.Add(24*time.Hour))
	if today != tonight {
		t.Error("keys change within a day")
	}
	if tomorrow[0] != today[2] || tomorrow[1] != today[0] {
		t.Error("the next day does not begin where this one ends")
	}
	if today[0] == today[1] || today[0] == today[2] || today[1] == today[2] {
		t.Error("keys are alike")
	}
	other, err := TicketKeysAt(bytes.Repeat([]byte{8}, 32), midnight)
	if err != nil || other[0].Secret.Equal(mustKeys(t, master, midnight)[0].Secret.Text) {
		t.Error("another master makes the same keys", err)
	}
	if _, err := TicketKeysAt(nil, midnight); err == nil {
		t.Error("keys were made of nothing")
	}
	if _, err := (EdgeTicketKey{}).Key(); err == nil {
		t.Error("an empty key was taken")
	}
}

func mustKeys(t *testing.T, master []byte, now time.Time) []EdgeTicketKey {
	t.Helper()
	keys, err := TicketKeysAt(master, now)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}
