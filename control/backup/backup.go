// Package backup is the form of a backup file: a tar in gzip with a header first, members, and a manifest last that lists
// each member with size and checksum. It knows the form and not what the members mean.
//
// Invariants: a file is whole or refused, by Verify before anything is taken from it; a reader takes names of members from
// a list and no others, so that no file of a backup lands outside of its folder; a file of a newer format is told from a
// damaged one.
package backup

import (
	"errors"
	"regexp"
	"time"
)

// Format is the version of the form. It grows when an older reader would misunderstand a file, or leave out what counts.
const Format = 1

// Names of members. The store is in parts, StorePart each.
const (
	headerName   = "steer-backup.json"
	manifestName = "manifest.json"

	History   = "history.db"
	CoreState = "core.state"
	Map       = "dns.map"
	Settings  = "steer.yaml"
	CACert    = "ca/ca.crt"
	CAKey     = "ca/ca.key"
)

const (
	storePrefix = "store/"
	tapePrefix  = "tape/"
	// maxJSON bounds header and manifest: a manifest names at most maxMembers.
	maxJSON    = 64 << 20
	maxMembers = 200_000
	// MaxPart bounds one part of the store, which is read whole.
	MaxPart = 128 << 20
)

// known are the names a member may have besides header and manifest.
var known = regexp.MustCompile(`^(history\.db|core\.state|dns\.map|steer\.yaml|ca/ca\.(crt|key)|store/[0-9]{6}\.jsonl|tape/[0-9]{10}-[0-9]{8}T[0-9]{6}\.[0-9]{3}Z\.tape(\.gz)?)$`)

// Errors a caller branches on.
var (
	// ErrDamaged: the file is cut off, was changed, or is no backup.
	ErrDamaged = errors.New("the backup is damaged")
	// ErrNewer: a newer version of the program wrote it.
	ErrNewer = errors.New("a newer version of the program wrote the backup")
)

// Header begins a backup.
type Header struct {
	Format  int       `json:"format"`
	Program string    `json:"program"` // version
	Cluster string    `json:"cluster"`
	Node    string    `json:"node"`
	Created time.Time `json:"created"`
}

// Manifest ends a backup.
type Manifest struct {
	Header
	// Revision is that of the store, at which every key was read; Keys is how many there are.
	Revision int64 `json:"revision"`
	Keys     int   `json:"keys"`
	// NextMapVersion is the first map version that the store had not reserved yet.
	NextMapVersion uint64 `json:"nextMapVersion"`
	// Secrets and Nodes are names in the store: what needs the sealing key, and who has a certificate.
	Secrets []string `json:"secrets"`
	Nodes   []string `json:"nodes"`
	// Authority is the hex SHA-256 of the authority's certificate, AuthorityKey whether its key is in the backup.
	Authority    string `json:"authority"`
	AuthorityKey bool   `json:"authorityKey"`
	// AdminToken is the hex SHA-256 of the admin token, which is not in the backup.
	AdminToken string `json:"adminToken"`
	// Geo are the geo data files in use, which are not in the backup.
	Geo []GeoFile `json:"geo"`
	// LeftOut is what is not in the backup, and why.
	LeftOut []LeftOut `json:"leftOut"`
	Members []Member  `json:"members"`
}

// GeoFile is a geo data file by name and hex SHA-256; Error says why there is no hash.
type GeoFile struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256,omitempty"`
	Error  string `json:"error,omitempty"`
}

// LeftOut is one thing that is not in the backup.
type LeftOut struct {
	What string `json:"what"`
	Why  string `json:"why"`
}

// Member is one file in the backup.
type Member struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"` // bytes
	SHA256 string `json:"sha256"`
}

// Pair is one key of the store as a line of JSON. Value is text where it is, and Bytes where it is not.
type Pair struct {
	Key     string `json:"key"`
	Value   string `json:"value,omitempty"`
	Bytes   []byte `json:"bytes,omitempty"`
	Created int64  `json:"created"`
	Written int64  `json:"written"`
	Version int64  `json:"version"`
}

// InStore reports whether a member is a part of the store, InTape whether it is one of the tape.
func InStore(name string) bool {
	return len(name) > len(storePrefix) && name[:len(storePrefix)] == storePrefix
}

// InTape reports whether a member is a segment of the tape.
func InTape(name string) bool {
	return len(name) > len(tapePrefix) && name[:len(tapePrefix)] == tapePrefix
}
