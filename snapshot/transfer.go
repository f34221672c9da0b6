package snapshot

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"net/netip"
	"slices"

	"steerpoint/internal/hidden"
)

// DNSTransfer says who gets a zone whole, by AXFR or IXFR, and who is told when it changed.
type DNSTransfer struct {
	// To are secondaries: they are told, and may transfer.
	To []DNSSecondary `json:"to,omitempty"`
	// Allow are others who may transfer.
	Allow []DNSAllow `json:"allow,omitempty"`
	// Default: a steered name is transferred with what its catch-all rule answers. Otherwise a zone with steered names is
	// not transferred.
	Default bool `json:"default,omitempty"`
}

// DNSSecondary is a server that holds a copy of a zone.
type DNSSecondary struct {
	Address netip.Addr `json:"address"`
	Port    uint16     `json:"port"`
	Key     string     `json:"key,omitempty"` // name of the key that messages to and from it are signed by; "": none
}

// DNSAllow is who may transfer: both must fit if both are set.
type DNSAllow struct {
	Prefix netip.Prefix `json:"prefix,omitzero"`
	Key    string       `json:"key,omitempty"`
}

// DNSKey is a key a zone's transfers are signed by (RFC 8945).
type DNSKey struct {
	Zone      string  `json:"zone"`      // FQDN
	Name      string  `json:"name"`      // FQDN
	Algorithm string  `json:"algorithm"` // hmac-sha256, hmac-sha384 or hmac-sha512
	Secret    Carried `json:"secret"`    // base64
}

// Carried is a text that shows nowhere but travels: only its JSON holds it, which goes into an envelope. What holds one must
// not be logged or shown as JSON.
type Carried struct{ hidden.Text }

// MarshalJSON gives the text itself.
func (c Carried) MarshalJSON() ([]byte, error) { return json.Marshal(c.Reveal()) }

// Equal reports whether two say the same.
func (t *DNSTransfer) Equal(o *DNSTransfer) bool {
	if t == nil || o == nil {
		return t == o
	}
	return t.Default == o.Default && slices.Equal(t.To, o.To) && slices.Equal(t.Allow, o.Allow)
}

// Equal reports whether two keys are the same, secrets included.
func (k DNSKey) Equal(o DNSKey) bool {
	return k.Zone == o.Zone && k.Name == o.Name && k.Algorithm == o.Algorithm && k.Secret.Text.Equal(o.Secret.Text)
}

func compareKeys(a, b DNSKey) int {
	return cmp.Or(cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.Name, b.Name))
}

// Serial is the SOA serial of a zone, by its index in Zones.
func (d *DNS) Serial(zone int) uint32 {
	if zone < len(d.Serials) && d.Serials[zone] != 0 {
		return uint32(d.Serials[zone])
	}
	return uint32(d.Version)
}

// DNSTransfers is the part of a delta that is about transfers: a list that is whole or as it was.
type DNSTransfers struct {
	Same    bool     `json:"same,omitempty"` // the list is that of the base
	Serials []uint64 `json:"serials,omitempty"`
	// Digest is over all that the result has of transfers, its zones included. It is not part of DNS.Digest, which nodes of
	// versions that know no transfers compute too. It is there when nothing changed, too: a base that such a version has
	// kept on disk lacks all of it.
	Digest []byte `json:"digest"`
}

// transfersOf makes that part; nil: neither snapshot has anything of transfers.
func transfersOf(old, next *DNS) *DNSTransfers {
	if !old.transfers() && !next.transfers() {
		return nil
	}
	t := &DNSTransfers{Digest: next.transferSum()}
	if t.Same = old != nil && slices.Equal(old.Serials, next.Serials); !t.Same {
		t.Serials = next.Serials
	}
	return t
}

// serials are those of the result.
func (t *DNSTransfers) serials(old *DNS) []uint64 {
	switch {
	case t == nil:
		return nil
	case t.Same:
		return old.Serials
	default:
		return t.Serials
	}
}

// transfers reports whether there is anything of transfers in it.
func (d *DNS) transfers() bool {
	return d != nil && (len(d.Serials) > 0 || slices.ContainsFunc(d.Zones, func(z DNSZone) bool { return z.Transfer != nil }))
}

// fits reports whether a result is the one meant.
func (t *DNSTransfers) fits(d *DNS) bool {
	if t == nil {
		return true
	}
	return slices.Equal(t.Digest, d.transferSum())
}

// transferSum is a hash over all that is there of transfers.
func (d *DNS) transferSum() []byte {
	type who struct {
		Zone int
		*DNSTransfer
	}
	all := struct {
		Serials []uint64
		Zones   []who
	}{Serials: d.Serials}
	for i := range d.Zones {
		if t := d.Zones[i].Transfer; t != nil {
			all.Zones = append(all.Zones, who{i, t})
		}
	}
	b, err := json.Marshal(all)
	if err != nil { // these types always encode
		return nil
	}
	s := sha256.Sum256(b)
	return s[:]
}

// sameTransfers reports whether two lists of zones say the same of transfers.
func sameTransfers(a, b []DNSZone) bool {
	return sameSlice(a, b, func(x, y *DNSZone) bool { return x.Transfer.Equal(y.Transfer) })
}
