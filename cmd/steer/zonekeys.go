package main

import (
	"steerpoint/internal/envelope"
	"steerpoint/internal/pki"
)

// openZoneKeys opens what is sealed to a name server for a use by the key in a file. The file is read each time: it may be made, or
// put back, while the name server runs; and nothing of it is kept in memory.
func openZoneKeys(file string) func(use string, sealed []byte) ([]byte, error) {
	return func(use string, sealed []byte) ([]byte, error) {
		key, err := pki.ReadKey(file)
		if err != nil {
			return nil, err
		}
		o, err := envelope.NewOpener(key)
		if err != nil {
			return nil, err
		}
		return o.Open(use, sealed)
	}
}
