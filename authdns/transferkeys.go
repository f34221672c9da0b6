package authdns

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"

	"steerpoint/authdns/internal/transfer"
	"steerpoint/authdns/internal/tsig"
	"steerpoint/snapshot"
)

// keyring is the keys of one map. It is never changed.
type keyring struct {
	of     []snapshot.DNSKey
	byZone map[string][]*tsig.Key // by wire name
}

// takeKeys makes the keys of a map ready, unless they are those before.
func (t *transfers) takeKeys(keys []snapshot.DNSKey) {
	if slices.EqualFunc(keys, t.keys.Load().of, snapshot.DNSKey.Equal) {
		return
	}
	ring := &keyring{of: keys, byZone: map[string][]*tsig.Key{}}
	for _, k := range keys {
		zone, err := transfer.Name(k.Zone)
		made, keyErr := keyOf(k)
		if err := errors.Join(err, keyErr); err != nil {
			t.log.Error("a TSIG key cannot be used: what it signs is refused", "zone", k.Zone, "key", k.Name, "error", err)
			continue
		}
		ring.byZone[string(zone)] = append(ring.byZone[string(zone)], made)
	}
	t.keys.Store(ring)
}

// named is a key of a zone, by the zone's wire name and the key's text; nil: there is none.
func (r *keyring) named(zone, key string) *tsig.Key {
	name, err := transfer.Name(key)
	if err != nil {
		return nil
	}
	for _, k := range r.byZone[zone] {
		if bytes.Equal(k.Name, name) {
			return k
		}
	}
	return nil
}

// signs is the key that signed a message about a name: of the closest zone above that has it; nil: none does.
func (r *keyring) signs(name []byte, by *tsig.Record) *tsig.Key {
	for len(name) > 0 {
		for _, k := range r.byZone[string(name)] {
			if by.Uses(k) {
				return k
			}
		}
		if len(name) == 1 {
			break
		}
		name = name[1+int(name[0]):]
	}
	return nil
}

// keyOf makes a key of what the map holds of it. The error says nothing of the secret.
func keyOf(k snapshot.DNSKey) (*tsig.Key, error) {
	name, err := transfer.Name(k.Name)
	if err != nil {
		return nil, err
	}
	algorithm, ok := tsig.AlgorithmOf(k.Algorithm)
	if !ok {
		return nil, fmt.Errorf("%q is no algorithm of TSIG keys here", k.Algorithm)
	}
	secret, err := base64.StdEncoding.DecodeString(k.Secret.Reveal())
	if err != nil || len(secret) == 0 {
		return nil, fmt.Errorf("its secret is not base64")
	}
	return &tsig.Key{Name: name, Algorithm: algorithm, Secret: secret}, nil
}
