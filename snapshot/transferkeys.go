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

// keySet is the keys of transfers.
type keySet struct {
	zones    []*spec.Zone // what keys are of
	turn     uint64
	keys     []DNSKey
	problems []Problem
	made     bool
}

// take brings the keys up to date. One whose Secret does not open now stays as it was: secondaries go on.
func (k *keySet) take(in *DNSInput, previous *DNS) {
	if k.made && k.turn == in.SecretTurn && slices.Equal(k.zones, in.Zones) {
		return
	}
	before := k.keys
	if !k.made && previous != nil {
		before = previous.Keys
	}
	k.zones, k.turn, k.made = slices.Clone(in.Zones), in.SecretTurn, true
	k.keys, k.problems = nil, nil
	for _, z := range in.Zones {
		for i := range z.TSIGKeys {
			key, err := compileKey(z, &z.TSIGKeys[i], in.Secret)
			if err == nil {
				k.keys = append(k.keys, key)
				continue
			}
			p := Problem{Code: ProblemKey, Zone: z.Name, Message: fmt.Sprintf("TSIG key %s: %v; what it signs is refused", z.TSIGKeys[i].Name, err)}
			at := slices.IndexFunc(before, func(b DNSKey) bool {
				return b.Zone == key.Zone && b.Name == key.Name && b.Algorithm == key.Algorithm
			})
			if at >= 0 {
				k.keys = append(k.keys, before[at])
				p.Message, p.Kept = fmt.Sprintf("TSIG key %s: %v; transfers go on with the value from before", z.TSIGKeys[i].Name, err), true
			}
			k.problems = append(k.problems, p)
		}
	}
	slices.SortFunc(k.keys, compareKeys)
	if slices.EqualFunc(k.keys, before, DNSKey.Equal) {
		k.keys = before
	}
}

func compileKey(z *spec.Zone, t *spec.TSIGKey, open func(spec.SecretRef) (hidden.Text, error)) (DNSKey, error) {
	key := DNSKey{Zone: fqdn(z.Zone), Name: fqdn(t.Name), Algorithm: t.Algorithm}
	if open == nil {
		return key, fmt.Errorf("this process opens no Secrets")
	}
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
