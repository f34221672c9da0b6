package control

import (
	"errors"
	"fmt"

	"steerpoint/snapshot"
	"steerpoint/spec"
)

// pair is the chain of a certificate with its key, as gateways get it; why not, else.
func (c *Control) pair(name string) (snapshot.EdgeKeyPair, error) {
	x := c.orders.get(name)
	if x == nil || x.state.Chain == "" || x.sealed == nil {
		return snapshot.EdgeKeyPair{}, errNotOrdered
	}
	keys, err := c.secrets.opening()
	if err != nil {
		return snapshot.EdgeKeyPair{}, err
	}
	key, err := keys.Open(orderPlace(name), x.sealed, orderKey)
	if err != nil {
		return snapshot.EdgeKeyPair{}, err
	}
	return snapshot.EdgeKeyPair{Name: name, Chain: x.state.Chain, Key: snapshot.Carried{Text: key}}, nil
}

// errNotOrdered is a certificate that is still waited for, of which there is an alarm of its own.
var errNotOrdered = errors.New("it is not ordered yet")

// orderedPairs are the certificates of a snapshot that control orders, and which are missing for another reason than that they
// are still waited for.
func (c *Control) orderedPairs(e *snapshot.Edge, set *spec.Set) (pairs []snapshot.EdgeKeyPair, missing []string) {
	wanted := c.wantedOrders(set)
	for i := range e.Certificates {
		name := e.Certificates[i].Name
		if wanted[name] == nil {
			continue
		}
		p, err := c.pair(name)
		switch {
		case err == nil:
			pairs = append(pairs, p)
		case !errors.Is(err, errNotOrdered):
			missing = append(missing, fmt.Sprintf("Certificate %s: %v", name, err))
		}
	}
	return pairs, missing
}
