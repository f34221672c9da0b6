package direct

import (
	"steerpoint/edge/internal/route"
	"steerpoint/edge/internal/rules"
)

// BodyWanted is how many octets of a body the rules of a request's route look at; 0: none do. The messages of gRPC are no
// bodies to look at: they may come for as long as the call lasts.
func (s *Site) BodyWanted(host, path []byte, secure bool) int64 {
	var room [256]byte
	path, err := route.Clean(room[:0], path)
	if err != nil {
		return 0
	}
	m := s.table.Find(host, path, secure)
	if m.Route < 0 || !s.Routes[m.Route].Body() || s.Routes[m.Route].Spec.Protocol == "grpc" {
		return 0
	}
	return rules.BodyWindow
}
