package spec

import (
	"steerpoint/steering/scope"
)

// Scope is the Geo & ISP range of a rule as it is written: "*" for everybody, or lists of places and networks.
type Scope struct {
	Any       bool            `json:"-"` // written "*"
	CIDR      List[Prefix]    `json:"cidr" maxItems:"1000" doc:"address ranges; go before everything else"`
	Continent List[Continent] `json:"continent" doc:"AF, AN, AS, EU, NA, OC, SA"`
	Country   List[Country]   `json:"country" maxItems:"1000" doc:"ISO 3166-1 alpha-2 codes"`
	Province  List[string]    `json:"province" maxItems:"1000" doc:"provinces of the countries named"`
	City      List[string]    `json:"city" maxItems:"1000" doc:"cities of the countries named"`
	ISP       List[string]    `json:"isp" maxItems:"1000" doc:"Internet providers"`
	ASN       List[ASN]       `json:"asn" maxItems:"1000" doc:"autonomous systems: 4134 or AS4134"`
}

// raw gives the fields as they are written, for scope.Validate.
func (s *Scope) raw() scope.Scope {
	out := scope.Scope{Any: s.Any, Province: s.Province, City: s.City, ISP: s.ISP}
	for _, p := range s.CIDR {
		out.CIDR = append(out.CIDR, p.Prefix)
	}
	for _, c := range s.Continent {
		out.Continent = append(out.Continent, string(c))
	}
	for _, c := range s.Country {
		out.Country = append(out.Country, string(c))
	}
	for _, a := range s.ASN {
		out.ASN = append(out.ASN, uint32(a))
	}
	return out
}

// Scope gives the normalized scope that the core and the name server use. Of a scope that is not valid it gives the
// fields as they are; Parse returns none such.
func (s *Scope) Scope() scope.Scope {
	out := s.raw()
	if normal, err := out.Normalize(); err == nil {
		return normal
	}
	return out
}

// String is the canonical text: "*", or "country=CN isp=chinatelecom".
func (s *Scope) String() string {
	c := s.Scope()
	return c.Canonical()
}
