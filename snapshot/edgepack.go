package snapshot

import (
	"encoding/json"
	"errors"
	"fmt"
)

// EdgePack is what goes to a gateway elsewhere: what it serves by, and what is secret of it, sealed to those that there were
// when it was made. It is kept on disk as it came, and never changed once made.
type EdgePack struct {
	Edge   *Edge   `json:"edge"`
	Sealed *Sealed `json:"sealed,omitempty"` // EdgeSecrets, for EdgeSecretsUse; nil: there are none
}

// EdgeSecretsUse is what EdgeSecrets are sealed for.
const EdgeSecretsUse = "edge secrets"

// Version is that of the snapshot; 0: there is none.
func (p *EdgePack) Version() uint64 {
	if p == nil || p.Edge == nil {
		return 0
	}
	return p.Edge.Version
}

// Whole says what is missing of a pack that came from a disk or a wire; nil: nothing is.
func (p *EdgePack) Whole() error {
	if p.Edge == nil || p.Edge.Version == 0 {
		return errors.New("there is no snapshot in it")
	}
	return nil
}

// Marshal gives the text for the envelope. The caller clears it.
func (s *EdgeSecrets) Marshal() ([]byte, error) {
	b, err := json.Marshal(s)
	if err != nil { // plain values: it does not happen
		return nil, fmt.Errorf("secrets of gateways cannot be encoded: %w", err)
	}
	return b, nil
}

// UnmarshalEdgeSecrets reads that text. The error holds nothing of it.
func UnmarshalEdgeSecrets(text []byte) (*EdgeSecrets, error) {
	s := new(EdgeSecrets)
	if json.Unmarshal(text, s) != nil {
		return nil, errors.New("the secrets of gateways are damaged, or of a newer version")
	}
	return s, nil
}
