package authdns

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	"steerpoint/internal/atomicfile"
	"steerpoint/snapshot"
)

// The file that keeps the keys of transfers, beside the one that keeps the map. Maps are copied into backups and looked at by
// people; keys are for this machine alone. Version 1: a list of snapshot.DNSKey as JSON.
const (
	keysName    = "dns.keys"
	keysKind    = "dns-keys"
	keysVersion = 1
)

func keysFile(mapFile string) string { return filepath.Join(filepath.Dir(mapFile), keysName) }

// ReadKeys reads the keys of transfers that a name server keeps beside its map. A missing file matches fs.ErrNotExist, a
// damaged one atomicfile.ErrDamaged, one of a newer program atomicfile.ErrNewer.
func ReadKeys(mapFile string) ([]snapshot.DNSKey, error) {
	file := keysFile(mapFile)
	_, payload, err := atomicfile.Read(file, keysKind, keysVersion)
	if err != nil {
		return nil, err
	}
	var keys []snapshot.DNSKey
	if json.Unmarshal(payload, &keys) != nil { // its error would show what stands there
		return nil, &atomicfile.DamagedError{Path: file, Why: "it is whole but holds no keys"}
	}
	return keys, nil
}

// withKeys is a map from disk with the keys that are kept beside it. Without them it answers all the same: transfers that need
// one are refused until control sends a map.
func withKeys(d *snapshot.DNS, mapFile string) *snapshot.DNS {
	if keys, err := ReadKeys(mapFile); err == nil && len(keys) > 0 {
		out := *d
		out.Keys = keys
		return &out
	}
	return d
}

// loadKeys looks at the file at the start: it notes what is kept, and sets a damaged one aside.
func (s *Server) loadKeys() {
	keys, err := ReadKeys(s.cfg.StateFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case errors.Is(err, atomicfile.ErrDamaged):
		aside, asideErr := atomicfile.SetAside(keysFile(s.cfg.StateFile))
		s.log.Error("the keys of zone transfers on disk are damaged: transfers that need one are refused until control sends a map",
			"error", errors.Join(err, asideErr), "movedTo", aside)
	case err != nil:
		s.log.Error("the keys of zone transfers on disk cannot be used: transfers that need one are refused until control sends a map",
			"error", err)
	default:
		s.savedKeys = keys
	}
}

// saveKeys keeps the keys of a map, if they are not those that are kept. It is called before the map itself is written.
func (s *Server) saveKeys(keys []snapshot.DNSKey) error {
	if slices.EqualFunc(keys, s.savedKeys, snapshot.DNSKey.Equal) {
		return nil
	}
	payload, err := json.Marshal(keys)
	if err == nil {
		err = atomicfile.Write(keysFile(s.cfg.StateFile), keysKind, keysVersion, payload)
	}
	if err == nil {
		s.savedKeys = keys
	}
	return err
}
