package importer

import (
	"time"

	"steerpoint/spec"
)

// defaults are resources with nothing but their defaults: what the import does not say is as if nobody wrote it.
type defaults struct {
	service spec.Service
	zone    spec.Zone
}

const plainService = `{"apiVersion": "steerpoint/v1", "kind": "Service", "name": "a", "domains": ["a.example"],
"edges": [{"name": "a", "addresses": ["192.0.2.1"]}], "rules": [{"name": "a", "scope": "*", "mode": "fixed", "edges": ["a"]}]}`

const plainZone = `{"apiVersion": "steerpoint/v1", "kind": "Zone", "name": "a", "zone": "a.example", "ns": [{"name": "ns.example.net"}],
"records": [{"name": "b", "type": "A", "values": ["192.0.2.1"]}]}`

func readDefaults() defaults {
	s, _ := spec.Parse("", []byte(plainService)) // constants, valid by a test
	z, _ := spec.Parse("", []byte(plainZone))
	return defaults{*s[0].Service, *z[0].Zone}
}

func (d *defaults) edge() spec.Edge {
	e := d.service.Edges[0]
	e.Addresses = nil
	return e
}

func (d *defaults) rule() spec.Rule {
	r := d.service.Rules[0]
	r.Scope, r.Edges = spec.Scope{}, nil
	return r
}

func (d *defaults) record() spec.Record {
	r := d.zone.Records[0]
	r.Values = nil
	return r
}

// Limits of durations in spec.
const (
	minTTL = 1
	maxTTL = 24 * 60 * 60
	// longestTTL is that of static records and of the times of a SOA.
	longestTTL = 596523 * 60 * 60
)

func seconds(n int) spec.Duration { return spec.Duration(time.Duration(n) * time.Second) }
