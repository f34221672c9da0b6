package report

// Update is a DNS UPDATE message (RFC 2136) that a name server took: it was signed by a key of the zone, and the signature was
// right.
type Update struct {
	// ID is the same for the same message: one that comes again is answered as before.
	ID      string `json:"id"`
	Zone    string `json:"zone"`   // FQDN, lower case
	Key     string `json:"key"`    // name of the TSIG key: FQDN, lower case
	Client  string `json:"client"` // address it came from
	Message []byte `json:"message"`
}

// UpdateResult is what became of it.
type UpdateResult struct {
	Rcode  uint16 `json:"rcode"`            // that the client is told (RFC 2136 section 2.2)
	Reason string `json:"reason,omitempty"` // why, for the log; empty where it was done
}
