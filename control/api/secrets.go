package api

// RotateRequest seals everything anew that is sealed: Secrets, keys of zones, and what name servers share.
type RotateRequest struct {
	// NewKey also makes a new sealing key. The file keeps the older ones, which open earlier revisions.
	NewKey bool   `json:"newKey,omitempty"`
	Reason string `json:"reason,omitempty" maxLength:"500" doc:"for history and audit trail"`
}

// Rotation is what came of it.
type Rotation struct {
	Secrets  int    `json:"secrets"`            // sealed anew
	Zones    int    `json:"zones"`              // signed zones whose keys were sealed anew
	Revision int64  `json:"revision,omitempty"` // of the store; absent: there was nothing to write
	Key      string `json:"key"`                // name of the sealing key: 16 hexadecimal digits, made of it
	NewKey   bool   `json:"newKey"`
}
