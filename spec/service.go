package spec

// Service is domains, edges and rules managed as one: the unit of traffic steering (requirement A1).
type Service struct {
	Name string `json:"-"` // the resource's name

	Domains      []Domain          `json:"domains" required:"true" maxItems:"1000" doc:"names visitors use; a domain belongs to one service; IDN are kept as A-labels; a wildcard *.example.com is allowed"`
	Certificates map[string]string `json:"certificates" doc:"by domain: auto (ACME) or the name of a Certificate"`
	DNS          DNS               `json:"dns" doc:"where and how the service CNAME is answered"`
	Edges        []Edge            `json:"edges" required:"true" maxItems:"1000" item:"edge" doc:"destinations of the DNS layer"`
	Rules        []Rule            `json:"rules" required:"true" maxItems:"1000" item:"rule" doc:"who is sent where; exactly one rule has scope \"*\"; their order does not matter, the most specific scope wins"`
	OriginGroups []OriginGroup     `json:"originGroups" maxItems:"1000" item:"origin group" doc:"destinations of the gateway"`
	Routes       []Route           `json:"routes" maxItems:"1000" item:"route" doc:"which requests go to which origin group"`
	Policies     Policies          `json:"policies" doc:"what gateways and managed edges do with requests"`
	Acceleration Acceleration      `json:"acceleration" doc:"use of the overlay"`
}

// DNS says where and how a service's CNAME is answered.
type DNS struct {
	Provider string   `json:"provider" default:"builtin" doc:"builtin (our name servers), or the name of a DNSProvider"`
	Zone     HostName `json:"zone" dynamic:"the only steering zone" doc:"steering zone that holds the service CNAME <name>.<zone>"`
	TTL      Duration `json:"ttl" default:"30s" min:"1s" max:"24h" step:"1s" doc:"TTL of answers"`
	MinTTL   Duration `json:"minTTL" dynamic:"5s, or the ttl if that is less" min:"1s" max:"24h" step:"1s" doc:"shortest TTL while a change is near"`
	// NegativeTTL is how long resolvers keep "no such record" (RFC 2308).
	NegativeTTL Duration `json:"negativeTTL" default:"30s" min:"1s" max:"24h" step:"1s" doc:"how long a negative answer may be kept"`
}

// Edge is a destination of the DNS layer: exactly one of Nodes, Provider, Target and Addresses is set.
type Edge struct {
	Name      string            `json:"name" required:"true" format:"label" doc:"name of the edge, unique in the service"`
	Nodes     map[string]string `json:"nodes" doc:"our own gateways, by node label"`
	Provider  string            `json:"provider" format:"label" doc:"a managed edge: the name of an EdgeProvider"`
	Target    HostName          `json:"target" doc:"a name to send visitors to (CNAME)"`
	Addresses []Address         `json:"addresses" doc:"IPv4 and IPv6 addresses to answer with"`
	Enabled   bool              `json:"enabled" default:"true" doc:"false takes the edge out of every rule"`
	Weight    int               `json:"weight" default:"50" min:"1" max:"1000" doc:"share in weighted rules, in proportion to the others"`
}

// Mode is how a rule chooses among its edges.
type Mode string

// The modes.
const (
	Fixed    Mode = "fixed"
	Failover Mode = "failover"
	Quality  Mode = "quality"
	Weighted Mode = "weighted"
)

// Rule is a scope, a mode and the edges that take part.
type Rule struct {
	Name        string   `json:"name" required:"true" format:"label" doc:"name of the rule, unique in the service"`
	Scope       Scope    `json:"scope" required:"true" doc:"visitors the rule is for"`
	Mode        Mode     `json:"mode" required:"true" enum:"fixed,failover,quality,weighted" doc:"how an edge is chosen"`
	Edges       []string `json:"edges" required:"true" doc:"edges that take part, first choice first"`
	TTL         Duration `json:"ttl" dynamic:"dns.ttl" min:"1s" max:"24h" step:"1s" doc:"TTL of answers; one for all rules of a service"`
	WhenAllDown AllDown  `json:"whenAllDown" default:"hold" doc:"answer when every edge is down: hold, all, first, empty, or fallback:<name or address>"`
	Lock        Duration `json:"lock" default:"60s" min:"0s" max:"24h" doc:"after a switch, time without a voluntary move"`
	Cooldown    Duration `json:"cooldown" default:"120s" min:"0s" max:"24h" doc:"time an edge must stay up before visitors return to it"`
	Dwell       Duration `json:"dwell" dynamic:"3 x probe.interval" min:"0s" max:"24h" doc:"quality: time another edge must stay better before a move; 0s is the default"`
	SlowFactor  Milli    `json:"slowFactor" default:"0" min:"0" max:"1000" doc:"a probe slower than this many times its baseline counts as failed; 0: latency never makes an edge down"`
	Schedule    []Window `json:"schedule" item:"window" doc:"times at which other edges take part"`
	Probe       Probe    `json:"probe" doc:"how the edges are probed"`
}

// Window is one schedule entry: from From to To on Days, local time of TZ, Edges replace the rule's.
type Window struct {
	Days  List[Day] `json:"days" dynamic:"every day" doc:"days it starts on"`
	From  Clock     `json:"from" required:"true" doc:"start, HH:MM"`
	To    Clock     `json:"to" required:"true" doc:"end, HH:MM, not included; before from: on the next day"`
	TZ    string    `json:"tz" default:"UTC" doc:"IANA time zone, such as Asia/Shanghai"`
	Edges []string  `json:"edges" required:"true" doc:"edges that take part meanwhile, first choice first"`
}

// Probe says how the edges of a rule are probed.
type Probe struct {
	Enabled   bool     `json:"enabled" default:"true" doc:"false: nothing is probed, nothing moves by itself"`
	URL       ProbeURL `json:"url" dynamic:"https://<first domain>/" doc:"what is asked for: https://host/path, http://host/path, tcp://host:port, udp16://host:port, dns://host/name?type=A&rcode=NOERROR, icmp://host, grpc://host:port/service or grpcs://host/service; the connection goes to the edge's own address, with this host as Host and SNI"`
	Method    string   `json:"method" default:"HEAD" enum:"HEAD,GET" doc:"HTTP method"`
	Interval  Duration `json:"interval" default:"30s" min:"1s" max:"1h" doc:"time between probes of one edge address from one point"`
	Timeout   Duration `json:"timeout" dynamic:"5s, or the interval if that is less" min:"10ms" max:"1h" doc:"time a probe may take; at most the interval"`
	Fall      int      `json:"fall" default:"3" min:"1" max:"10" doc:"failures in a row that make a point call an address down"`
	Rise      int      `json:"rise" default:"2" min:"1" max:"10" doc:"successes in a row that make it up again"`
	Points    Points   `json:"points" doc:"which probe points vote: near, labels or names"`
	MinPoints int      `json:"minPoints" default:"0" min:"0" max:"100" doc:"points that must have a fresh result for a verdict; 0: the majority of the rule's points"`
	Expect    Expect   `json:"expect" doc:"what counts as a success"`
	Kind      string   `json:"kind" dynamic:"the scheme of url" enum:"http,https,tcp,udp16,dns,icmp,grpc,grpcs" doc:"kind of probe"`
	Families  []string `json:"families" enum:"ipv4,ipv6" doc:"families that are probed, each of a name by itself; left out: every address, those of a name in turn and as one"`
}

// Points selects probe points: near the scope, by labels, or by names.
type Points struct {
	Near   string            `json:"near" dynamic:"scope, unless labels or names are given" enum:"scope" doc:"scope: the points nearest to the rule's scope"`
	Count  int               `json:"count" dynamic:"3, with near" min:"1" max:"100" doc:"how many points, with near"`
	Labels map[string]string `json:"labels" doc:"every point that has all these labels"`
	Names  []string          `json:"names" doc:"these points"`
}

// Expect says what counts as a success of a probe.
type Expect struct {
	Status     StatusRanges `json:"status" default:"200-399" doc:"accepted HTTP status codes: numbers and ranges"`
	Body       string       `json:"body" format:"text" doc:"text the body must hold, with method GET; with kind dns, text a record of the answer must hold"`
	MaxLatency Duration     `json:"maxLatency" default:"0s" min:"0s" max:"1h" doc:"a slower answer is a failure; 0s: no limit"`
	TLSVerify  bool         `json:"tlsVerify" default:"true" doc:"verify the certificate against the host of url"`
	CertDays   int          `json:"certDays" default:"0" min:"0" max:"1825" doc:"https, grpcs: a certificate that ends in fewer days is a failure; 0: when it has ended. An alarm comes at 14, 7 and 3 days in any case"`
}
