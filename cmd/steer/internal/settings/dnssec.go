package settings

// DNSSEC says how control learns what the parents of signed zones have.
type DNSSEC struct {
	// ParentResolver, ADDR or ADDR:PORT, finds the parents of signed zones, whose name servers are then asked for the DS. "":
	// nobody is asked, and `steer dnssec ds-seen` says that it is there.
	ParentResolver string `yaml:"parentResolver"`
}
