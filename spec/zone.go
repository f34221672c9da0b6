package spec

import "time"

// Zone is a DNS zone we are authoritative for. A steering zone holds the service CNAMEs.
type Zone struct {
	Name string `json:"-"` // the resource's name

	Zone     HostName     `json:"zone" required:"true" doc:"domain name of the zone"`
	NS       []NameServer `json:"ns" required:"true" item:"name server" doc:"its name servers"`
	NSTTL    Duration     `json:"nsTTL" default:"5m" min:"1s" max:"24h" step:"1s" doc:"TTL of the NS, glue and SOA records; a short one lets the name servers move fast"`
	SOA      SOA          `json:"soa" doc:"fields of the SOA record; the serial is the version of the map, or that in which the zone last changed"`
	Steering bool         `json:"steering" default:"true" doc:"whether service CNAMEs live in it"`
	DNSSEC   DNSSEC       `json:"dnssec" doc:"whether the zone is signed, and how"`
	Records  []Record     `json:"records" item:"record" maxItems:"100000" doc:"static record sets: what is not steered"`

	TSIGKeys []TSIGKey `json:"tsigKeys" item:"TSIG key" maxItems:"32" doc:"keys that messages about the zone are signed by (TSIG)"`
	Transfer *Transfer `json:"transfer" doc:"which other name servers get the zone whole; left out: none"`

	Update []UpdateGrant `json:"update" item:"grant" maxItems:"32" doc:"who may change records of the zone by DNS UPDATE (RFC 2136), such as programs that prove a domain to a certificate authority; left out: nobody"`
}

// NameServer is one NS of a zone. Addresses are its glue and are needed when the name lies inside the zone.
type NameServer struct {
	Name      HostName  `json:"name" required:"true" doc:"name of the name server"`
	Addresses []Address `json:"addresses" doc:"its addresses; needed when the name is inside the zone"`
}

// SOA holds the fields of a zone's SOA record (RFC 1035 section 3.3.13, RFC 2308 for Minimum).
type SOA struct {
	MName   HostName `json:"mname" dynamic:"the first ns" doc:"primary name server"`
	RName   HostName `json:"rname" dynamic:"hostmaster.<zone>" doc:"mailbox of the person in charge, with a dot for the @"`
	Refresh Duration `json:"refresh" default:"1h" min:"1s" max:"596523h" step:"1s" doc:"how often secondaries look"`
	Retry   Duration `json:"retry" default:"10m" min:"1s" max:"596523h" step:"1s" doc:"how soon they look again after a failure"`
	Expire  Duration `json:"expire" default:"336h" min:"1s" max:"596523h" step:"1s" doc:"how long they answer without us"`
	Minimum Duration `json:"minimum" default:"30s" min:"0s" max:"24h" step:"1s" doc:"longest time a negative answer is kept"`
}

// DNSSEC says how a zone is signed: ECDSA P-256, a key-signing and a zone-signing key, compact denial (RFC 9824).
type DNSSEC struct {
	Enabled       bool     `json:"enabled" default:"false" doc:"sign the zone; to end it, delete the DS at the parent and say so with steer dnssec ds-gone"`
	ZSKPeriod     Duration `json:"zskPeriod" default:"2160h" min:"0s" max:"87600h" step:"1s" doc:"age at which the zone-signing key is rolled; 0s: by hand only"`
	KSKPeriod     Duration `json:"kskPeriod" default:"0s" min:"0s" max:"87600h" step:"1s" doc:"age at which the key-signing key is rolled, which the parent has to follow; 0s: by hand only"`
	SignatureLife Duration `json:"signatureLife" default:"336h" min:"24h" max:"2160h" step:"1s" doc:"how long a signature is valid; it is made anew at half of that"`
	ParentTTL     Duration `json:"parentTTL" default:"24h" min:"1s" max:"168h" step:"1s" doc:"TTL of the DS record at the parent: how long an old key stays after its DS was replaced"`
}

// Record is a static record set of a zone.
type Record struct {
	Name   string     `json:"name" required:"true" doc:"name relative to the zone; @ is the zone itself, *.dev every name below dev that does not exist"`
	Type   RecordType `json:"type" required:"true" doc:"type of the records: A, AAAA, CAA, CNAME, DS, HTTPS, MX, NAPTR, NS (a delegation), PTR, SRV, SSHFP, SVCB, TLSA, TXT and others; TYPE65280 for one without a name; ALIAS answers with the addresses of another name"`
	TTL    Duration   `json:"ttl" default:"5m" min:"0s" max:"596523h" step:"1s" doc:"TTL of the records"`
	Hints  bool       `json:"hints" default:"false" doc:"for HTTPS and SVCB at a name of a service with addresses only: ipv4hint and ipv6hint are added, with the addresses that the service answers this client"`
	Values []string   `json:"values" required:"true" maxItems:"1000" format:"text" doc:"one value a record, as in a zone file, names in full; the text of a TXT record may stand without quotes, however long"`
}

// Override is what force, drain and freeze write: exactly one of Force (with Rule), Drain and Freeze is set.
type Override struct {
	Name string `json:"-"` // the resource's name

	Rule   string    `json:"rule" format:"path2" doc:"service/rule that force is for"`
	Force  string    `json:"force" format:"label" doc:"edge the rule answers with, whatever is measured"`
	Drain  *Drain    `json:"drain" doc:"take something out: an edge, a node or a probe point"`
	Freeze *Freeze   `json:"freeze" doc:"stop every automatic move of a service or a rule"`
	Until  time.Time `json:"until" dynamic:"no end" doc:"when it ends, RFC 3339: 2026-12-31T06:00:00Z"`
	Reason string    `json:"reason" format:"text" doc:"why, for those who find it at night"`
}

// Drain names what is taken out: exactly one of the three.
type Drain struct {
	Edge  string `json:"edge" format:"path2" doc:"service/edge"`
	Node  string `json:"node" format:"node" doc:"a node"`
	Point string `json:"point" format:"node" doc:"a probe point"`
}

// Freeze names what stands still: exactly one of the two.
type Freeze struct {
	Service string `json:"service" format:"label" doc:"every rule of a service"`
	Rule    string `json:"rule" format:"path2" doc:"service/rule"`
}
