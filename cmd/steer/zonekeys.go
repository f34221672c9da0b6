package main

import (
	"steerpoint/internal/envelope"
	"steerpoint/internal/pki"
	"steerpoint/snapshot"
)

// openZoneKeys opens the private keys of signed zones by the key in a file. The file is read each time: it may be made, or
// put back, while the name server runs; and nothing of it is kept in memory.
func openZoneKeys(file string) func(sealed []byte) ([]byte, error) {
	return func(sealed []byte) ([]byte, error) {
		key, err := pki.ReadKey(file)
		if err != nil {
			return nil, err
		}
		o, err := envelope.NewOpener(key)
		if err != nil {
			return nil, err
		}
		return o.Open(snapshot.SigningUse, sealed)
	}
}
