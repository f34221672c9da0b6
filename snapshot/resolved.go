package snapshot

import (
	"net/netip"
	"slices"
)

// Resolved is what names outside of our zones were last resolved to: the addresses of ALIAS records, and of edges that are
// names where only addresses can be answered. It is never changed once made; nil has nothing.
type Resolved struct {
	Names map[string]Addresses // by FQDN
}

// Addresses of one name, each family in ascending order.
type Addresses struct {
	A, AAAA []netip.Addr
}

// Equal reports whether two are the same.
func (a Addresses) Equal(o Addresses) bool {
	return slices.Equal(a.A, o.A) && slices.Equal(a.AAAA, o.AAAA)
}

func (r *Resolved) of(name string) (Addresses, bool) {
	if r == nil {
		return Addresses{}, false
	}
	a, ok := r.Names[name]
	return a, ok
}

func (a *Addresses) add(x netip.Addr) {
	if x.Is4() {
		a.A = append(a.A, x)
	} else {
		a.AAAA = append(a.AAAA, x)
	}
}

// capped keeps an answer within MaxAnswerAddresses of a family.
func (a Addresses) capped() Addresses {
	return Addresses{a.A[:min(len(a.A), MaxAnswerAddresses)], a.AAAA[:min(len(a.AAAA), MaxAnswerAddresses)]}
}
