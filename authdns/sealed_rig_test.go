package authdns

import (
	"bytes"
	"errors"
	"testing"

	"steerpoint/snapshot"
)

// plainMark stands before secrets in the maps of tests that are about what is done with them, not about sealing.
const plainMark = "plain:"

// share puts secrets into a map so that openPlain, which start gives to a server without an opener, opens them.
func share(t testing.TB, d *snapshot.DNS, secrets snapshot.ServerSecrets) *snapshot.DNS {
	t.Helper()
	text, err := secrets.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	d.Sealed = &snapshot.Sealed{Envelope: append([]byte(plainMark), text...)}
	return d
}

func openPlain(use string, sealed []byte) ([]byte, error) {
	text, ok := bytes.CutPrefix(sealed, []byte(plainMark))
	if !ok || use != snapshot.SecretsUse {
		return nil, errors.New("it is not plain")
	}
	return bytes.Clone(text), nil
}
