package resolve

import (
	"encoding/json"
	"errors"
	"io/fs"
	"net/netip"
	"time"

	"steerpoint/internal/atomicfile"
	"steerpoint/snapshot"
)

// The file of what was found. Version 1: JSON.
const (
	stateKind    = "resolved"
	stateVersion = 1
)

// saved is one name in the file.
type saved struct {
	A    []netip.Addr `json:"a,omitempty"`
	AAAA []netip.Addr `json:"aaaa,omitempty"`
	At   time.Time    `json:"at"`
}

// load takes what the file has. Whatever is wrong with it, the names are asked for anew.
func (k *Keeper) load() {
	if k.cfg.File == "" {
		return
	}
	_, payload, err := atomicfile.Read(k.cfg.File, stateKind, stateVersion)
	var names map[string]saved
	if err == nil {
		if bad := json.Unmarshal(payload, &names); bad != nil {
			err = &atomicfile.DamagedError{Path: k.cfg.File, Why: "it is whole but holds no addresses: " + bad.Error()}
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case errors.Is(err, atomicfile.ErrDamaged):
		aside, moveErr := atomicfile.SetAside(k.cfg.File)
		k.cfg.Log.Error("the addresses found for names elsewhere are damaged: they are set aside, and found anew", "error", errors.Join(err, moveErr), "movedTo", aside)
	case err != nil:
		k.cfg.Log.Error("the addresses found for names elsewhere cannot be read: they are found anew", "file", k.cfg.File, "error", err)
	default:
		for n, s := range names {
			k.names[n] = &name{addrs: snapshot.Addresses{A: s.A, AAAA: s.AAAA}, known: true, at: s.At}
		}
	}
}

// save writes what is known, if it changed. A file that cannot be written costs nothing while the process runs.
func (k *Keeper) save() {
	k.mu.Lock()
	if !k.unsaved || k.cfg.File == "" {
		k.mu.Unlock()
		return
	}
	k.unsaved = false
	out := make(map[string]saved, len(k.names))
	for n, s := range k.names {
		if s.known {
			out[n] = saved{s.addrs.A, s.addrs.AAAA, s.at.UTC()}
		}
	}
	k.mu.Unlock()
	payload, err := json.Marshal(out)
	if err == nil {
		err = atomicfile.Write(k.cfg.File, stateKind, stateVersion, payload)
	}
	if err != nil {
		k.cfg.Log.Warn("the addresses found for names elsewhere are not kept on disk", "file", k.cfg.File, "error", err)
	}
}
