package snapshot

import (
	"encoding/base64"
	"fmt"
	"slices"

	"steerpoint/internal/hidden"
	"steerpoint/spec"
)

// minSecret is the shortest secret of a key, in octets: what can be guessed signs nothing.
const minSecret = 16

// TransferKeys are the keys of zones with their values from Secrets, by zone and name. One whose Secret does not open now stays
// as it was among those before, so that secondaries go on; the problem says so.
func TransferKeys(zones []*spec.Zone, before []DNSKey, open func(spec.SecretRef) (hidden.Text, error)) (keys []DNSKey, problems []Problem) {
	for _, z := range zones {
		for i := range z.TSIGKeys {
			key, err := compileKey(z, &z.TSIGKeys[i], open)
			if err == nil {
				keys = append(keys, key)
				continue
			}
			p := Problem{Code: ProblemKey, Zone: z.Name, Message: fmt.Sprintf("TSIG key %s: %v; what it signs is refused", z.TSIGKeys[i].Name, err)}
			at := slices.IndexFunc(before, func(b DNSKey) bool {
				return b.Zone == key.Zone && b.Name == key.Name && b.Algorithm == key.Algorithm
			})
			if at >= 0 {
				keys = append(keys, before[at])
				p.Message, p.Kept = fmt.Sprintf("TSIG key %s: %v; transfers go on with the value from before", z.TSIGKeys[i].Name, err), true
			}
			problems = append(problems, p)
		}
	}
	slices.SortFunc(keys, compareKeys)
	return keys, problems
}

func compileKey(z *spec.Zone, t *spec.TSIGKey, open func(spec.SecretRef) (hidden.Text, error)) (DNSKey, error) {
	key := DNSKey{Zone: fqdn(z.Zone), Name: fqdn(t.Name), Algorithm: t.Algorithm}
	v, err := open(t.SecretFrom)
	if err != nil {
		return key, err
	}
	// Nothing of a value is said: what does not decode may be the secret in another form.
	raw, err := base64.StdEncoding.DecodeString(v.Reveal())
	switch {
	case err != nil:
		return key, fmt.Errorf("the value of key %s in Secret %s is not base64, as `tsig-keygen` or `keymgr -t` prints it", t.SecretFrom.Key, t.SecretFrom.Secret)
	case len(raw) < minSecret:
		return key, fmt.Errorf("the value of key %s in Secret %s has %d octets: want %d or more", t.SecretFrom.Key, t.SecretFrom.Secret, len(raw), minSecret)
	}
	key.Secret = Carried{v}
	return key, nil
}

func compileTransfer(t *spec.Transfer) *DNSTransfer {
	if t == nil {
		return nil
	}
	made := &DNSTransfer{Default: t.Steered == "default"}
	for _, to := range t.To {
		made.To = append(made.To, DNSSecondary{Address: to.Address.Addr, Port: uint16(to.Port), Key: keyName(to.TSIGKey)})
	}
	for _, a := range t.Allow {
		made.Allow = append(made.Allow, DNSAllow{Prefix: a.Prefix.Prefix, Key: keyName(a.TSIGKey)})
	}
	return made
}

func keyName(name spec.HostName) string {
	if name == "" {
		return ""
	}
	return fqdn(name)
}
