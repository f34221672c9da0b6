package spec

import (
	"fmt"
	"slices"
	"strings"

	"steerpoint/spec/internal/names"
)

// Transfer says which other name servers get a zone whole.
type Transfer struct {
	To      []Secondary     `json:"to" item:"secondary" maxItems:"32" doc:"secondaries: each is told when the zone changed (NOTIFY) and may transfer it (AXFR, IXFR)"`
	Allow   []TransferAllow `json:"allow" maxItems:"100" doc:"who else may transfer the zone; what none of these and of to fits is refused"`
	Steered string          `json:"steered" default:"refuse" enum:"refuse,default" doc:"when a steered name is in the zone: refuse the transfer, or transfer the name with what its catch-all rule answers (a secondary answers all clients alike)"`
	Catalog HostName        `json:"catalog" doc:"zone of ours that lists this one for secondaries, so that they take it up by themselves (catalog zone, RFC 9432)"`
}

// Secondary is a name server that holds a copy of a zone.
type Secondary struct {
	Name    string   `json:"name" required:"true" format:"label" doc:"name of the secondary, unique in the zone"`
	Address Address  `json:"address" required:"true" doc:"its address"`
	Port    int      `json:"port" default:"53" min:"1" max:"65535" doc:"port that it is told at"`
	TSIGKey HostName `json:"tsigKey" doc:"name of the TSIG key that messages between it and us must be signed by"`
}

// TransferAllow lets somebody transfer: with both set, both must fit.
type TransferAllow struct {
	Prefix  Prefix   `json:"prefix" doc:"addresses it may come from"`
	TSIGKey HostName `json:"tsigKey" doc:"name of the TSIG key it must be signed by"`
}

// TSIGKey is a key that messages about a zone are signed by (RFC 8945).
type TSIGKey struct {
	Name       HostName  `json:"name" required:"true" doc:"name of the key, the same at both ends"`
	Algorithm  string    `json:"algorithm" default:"hmac-sha256" enum:"hmac-sha256,hmac-sha384,hmac-sha512" doc:"keyed hash, the same at both ends"`
	SecretFrom SecretRef `json:"secretFrom" required:"true" doc:"value of a Secret that is the key in base64"`
}

// SecretUses gives what a zone takes from Secrets.
func (z *Zone) SecretUses() (out []SecretUse) {
	for i := range z.TSIGKeys {
		out = append(out, SecretUse{at("tsigKeys[%d].secretFrom", i), z.TSIGKeys[i].SecretFrom})
	}
	return out
}

// SecretUses gives what a resource takes from Secrets, in the order of its fields.
func (r *Resource) SecretUses() []SecretUse {
	switch {
	case r.Notifier != nil:
		return r.Notifier.SecretUses()
	case r.Zone != nil:
		return r.Zone.SecretUses()
	case r.Certificate != nil:
		return r.Certificate.SecretUses()
	default:
		return nil
	}
}

// transfer checks who gets a zone, and by which keys.
func (c *checker) transfer(z *Zone) {
	var keys []string
	for _, k := range z.TSIGKeys {
		keys = append(keys, string(k.Name))
	}
	c.uniqueNames("tsigKeys", keys, "key")
	used := map[string]bool{}
	if t := z.Transfer; t != nil {
		c.secondaries(t, keys, used)
		for i, a := range t.Allow {
			path := at("transfer.allow[%d]", i)
			c.keyNamed(path+".tsigKey", a.TSIGKey, keys, used)
			switch none := a.TSIGKey == "" && !a.Prefix.IsValid(); {
			case none && c.sound(path):
				c.fail(path, "", valueError{CodeMissing, "says nobody", "prefix, tsigKey or both", ""})
			case a.TSIGKey == "" && a.Prefix.IsValid() && a.Prefix.Bits() == 0:
				c.warn(path+".prefix", a.Prefix.String(), valueError{CodeOpenTransfer, "lets everybody copy the zone: all its names are public then", "", ""})
			}
		}
		if t.Catalog != "" && t.Catalog == z.Zone {
			c.fail("transfer.catalog", string(t.Catalog), valueError{CodeContradiction, "is the zone itself", catalogWords, ""})
		}
		if z.DNSSEC.Enabled && len(t.To)+len(t.Allow) > 0 {
			c.fail("transfer", "", valueError{CodeContradiction, "cannot be of a signed zone: its signatures are made as our name servers answer", "dnssec or transfer, not both", ""})
		}
		switch {
		case !c.sound("transfer", "steering"):
		case z.Steering && t.Steered == "refuse":
			c.warn("transfer.steered", t.Steered, valueError{CodeTransferUnused, "refuses every transfer as soon as a service is in this steering zone", "", ""})
		case len(t.To)+len(t.Allow) == 0:
			c.warn("transfer", "", valueError{CodeTransferUnused, "names neither to nor allow, so nobody may transfer the zone", "", ""})
		}
	}
	c.updates(z, keys, used)
	for i, k := range keys {
		if !used[k] && c.sound("transfer", "tsigKeys", "update") {
			c.warn(at("tsigKeys[%d]", i), k, valueError{CodeTransferUnused, "is used by nothing", "", ""})
		}
	}
}

func (c *checker) secondaries(t *Transfer, keys []string, used map[string]bool) {
	var labels, ends []string
	for i, s := range t.To {
		labels = append(labels, s.Name)
		c.keyNamed(at("transfer.to[%d].tsigKey", i), s.TSIGKey, keys, used)
		end := fmt.Sprintf("%s port %d", s.Address, s.Port)
		if slices.Contains(ends, end) && c.sound(at("transfer.to[%d]", i)) {
			c.fail(at("transfer.to[%d].address", i), s.Address.String(), valueError{CodeRepeated, "stands here twice with the same port", "each secondary once", ""})
		}
		ends = append(ends, end)
	}
	c.uniqueNames("transfer.to", labels, "secondary")
}

// catalogWords say what can be a catalog.
const catalogWords = "the zone of another Zone, with steering: false and a transfer of its own"

// catalogs checks that a catalog is a zone of ours that can be one.
func (k *setChecker) catalogs() {
	k.each(func(r *Resource) {
		if r.Zone == nil || r.Zone.Transfer == nil || r.Zone.Transfer.Catalog == "" {
			return
		}
		const path, allowed = "transfer.catalog", catalogWords
		name := r.Zone.Transfer.Catalog
		other := k.set.HostingZone(string(name))
		switch {
		case name == r.Zone.Zone: // told by the zone's own check
		case other == nil || other.Zone != name:
			if k.whole {
				k.fail(r, path, string(name), valueError{CodeUndefined, "is no zone of ours", allowed, ""})
			}
		case other.Steering || other.Transfer == nil || other.Transfer.Catalog != "":
			k.fail(r, path, string(name), valueError{CodeContradiction, "cannot be a catalog", allowed, ""})
		}
	})
}

// keyNamed refuses a key that the zone does not have.
func (c *checker) keyNamed(path string, name HostName, keys []string, used map[string]bool) {
	if name == "" {
		return
	}
	used[string(name)] = true
	if !slices.Contains(keys, string(name)) && c.sound("tsigKeys", path) {
		allowed := strings.Join(keys, ", ")
		if allowed == "" {
			allowed = "a key of tsigKeys"
		}
		c.fail(path, string(name), valueError{CodeUndefined, "is no key of tsigKeys", allowed, names.Nearest(string(name), keys)})
	}
}
