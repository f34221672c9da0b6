package api

import "time"

// DNSSEC is every zone that is signed, or was.
type DNSSEC struct {
	Zones []SignedZone `json:"zones"` // by name
}

// States of a signed zone.
const (
	ZoneSigned  = "signed"  // its DS was seen at the parent
	ZoneIsland  = "island"  // signed, and nobody has said yet that its DS is at the parent: validators take it as unsigned
	ZoneLeaving = "leaving" // to be signed no more; signed until its DS is gone
	ZoneOff     = "off"     // not signed now; its keys are kept
)

// SignedZone is a zone that is signed, or was.
type SignedZone struct {
	Zone  string    `json:"zone"`  // domain name, without the final dot
	State string    `json:"state"` // signed, island, leaving or off
	Keys  []ZoneKey `json:"keys"`  // in the order of their making
	// DS is what the parent should have, in presentation form, digest SHA-256; empty: nothing.
	DS []string `json:"ds"`
	// Next says what comes next, and what somebody has to do for it; absent: nothing is under way.
	Next string `json:"next,omitempty"`
	// Holds says why the waits of this zone stand still; absent: they do not.
	Holds string `json:"holds,omitempty"`
	// Parent is what the parent said when it was asked last; absent: it was not.
	Parent *ParentLook `json:"parent,omitempty"`
}

// ParentLook is what the name servers of a parent zone say of the DS of a zone.
type ParentLook struct {
	Zone    string         `json:"zone"` // the parent; empty: it was not found
	Asked   time.Time      `json:"asked"`
	Error   string         `json:"error,omitempty"` // why nobody was asked
	Servers []ParentServer `json:"servers"`         // by name and address
}

// ParentServer is one address of a name server of a parent zone.
type ParentServer struct {
	Name       string   `json:"name"`
	Address    string   `json:"address,omitempty"` // absent: none is known
	DS         []string `json:"ds"`                // tag, algorithm, digest type and digest of each
	TTLSeconds float64  `json:"ttlSeconds,omitempty"`
	Wanted     bool     `json:"wanted"`          // it has what is wanted: the DS, or none where none is to be left
	Error      string   `json:"error,omitempty"` // why it says nothing
}

// ZoneKey is one key of a zone: ECDSA P-256 (algorithm 13).
type ZoneKey struct {
	Tag   uint16    `json:"tag"`
	Role  string    `json:"role"`  // ksk or zsk
	Stage string    `json:"stage"` // published, ready, active or retired
	Made  time.Time `json:"made"`
	Since time.Time `json:"since"` // it is at that stage
	// WaitSeconds is what is left until the next stage; 0: it waits for no time.
	WaitSeconds float64 `json:"waitSeconds,omitempty"`
	DNSKEY      string  `json:"dnskey"` // the record's data in presentation form
}

// Roles of zone keys.
const (
	RoleKSK = "ksk" // signs the keys; the DS of the parent is of it
	RoleZSK = "zsk" // signs all else
)

// RollRequest begins the roll of a key.
type RollRequest struct {
	Key    string `json:"key" enum:"ksk,zsk" doc:"which key to roll"`
	Reason string `json:"reason,omitempty" maxLength:"500" doc:"for the audit trail"`
}

// ParentRequest says what somebody saw at the parent.
type ParentRequest struct {
	DS     string `json:"ds" enum:"seen,gone" doc:"seen: every name server of the parent has the DS that is wanted; gone: none has any DS of the zone"`
	Reason string `json:"reason,omitempty" maxLength:"500" doc:"for the audit trail"`
}
