package settings

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Listen is where roles listen: ADDR:PORT by role, several divided by commas.
type Listen map[string]string

// UnmarshalYAML takes one address of a role as it is, and several as a list.
func (l *Listen) UnmarshalYAML(n *yaml.Node) error {
	var given map[string]addresses
	if err := n.Decode(&given); err != nil {
		return err
	}
	*l = Listen{}
	for role, list := range given {
		(*l)[role] = strings.Join(list, ",")
	}
	return nil
}

// addresses is one address or a list of them.
type addresses []string

// UnmarshalYAML reads both forms.
func (a *addresses) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.SequenceNode {
		return n.Decode((*[]string)(a))
	}
	var one string
	if err := n.Decode(&one); err != nil {
		return err
	}
	*a = addresses{one}
	return nil
}

// several reports whether a role may listen on more than one address.
func several(role string) bool {
	return slices.Contains([]string{RoleDNS, RoleDoT, RoleDoH, RoleHTTP, RoleHTTPS}, role)
}

// Addresses are those a role listens on.
func (s *Settings) Addresses(role string) []string {
	if !several(role) {
		return []string{s.Listen[role]}
	}
	return strings.Split(s.Listen[role], ",")
}
