package snapshot

import (
	"net/netip"
	"time"
)

// Edge is the snapshot for gateways: everything needed to serve requests, so that nobody is asked meanwhile. It is never
// changed once made. Secrets are not in it: they are in EdgeSecrets, which travels sealed.
type Edge struct {
	Version uint64    `json:"version"`
	Created time.Time `json:"created"` // control's wall clock; for people only
	// Services are by name. Domains and paths of their routes do not collide.
	Services []EdgeService `json:"services"`
	// RuleSets are by name: those that routes name.
	RuleSets []EdgeRuleSet `json:"ruleSets,omitempty"`
	// Certificates are by name: those that domains use.
	Certificates []EdgeCertificate `json:"certificates,omitempty"`
	// Challenges prove to a certificate authority that domains are ours (RFC 8555 section 8.3). They are public.
	Challenges []EdgeChallenge `json:"challenges,omitempty"`
}

// EdgeService is what the gateway does for one service.
type EdgeService struct {
	Name    string        `json:"name"`
	Groups  []EdgeGroup   `json:"groups"`            // by name
	Routes  []EdgeRoute   `json:"routes"`            // as written; their order means nothing
	Access  []EdgeAccess  `json:"access,omitempty"`  // the first that fits decides; none: admitted
	Limits  []EdgeLimit   `json:"limits,omitempty"`  // every one that fits must admit
	Headers []EdgeHeaders `json:"headers,omitempty"` // of responses, in this order
	// Certificates says by domain which certificate it has; a domain without one has none.
	Certificates map[string]string `json:"certificates,omitempty"`
}

// EdgeRoute is one route with its defaults filled in.
type EdgeRoute struct {
	Name    string   `json:"name"`
	Domains []string `json:"domains"` // lower case; *.example.com matches every name below
	Paths   []string `json:"paths"`   // exact, or prefixes that end in /*
	HTTP    bool     `json:"http,omitempty"`
	HTTPS   bool     `json:"https,omitempty"`
	// HTTPSRedirect: http is answered with 307 to the same URL by https.
	HTTPSRedirect bool   `json:"httpsRedirect,omitempty"`
	Group         string `json:"group"` // one of the service's
	// OriginPath stands in the place of what the path matched; "": the path stays.
	OriginPath string   `json:"originPath,omitempty"`
	Forward    string   `json:"forward"` // one of Forwards
	RuleSets   []string `json:"ruleSets,omitempty"`
	Cache      bool     `json:"cache,omitempty"`
	Protocol   string   `json:"protocol"`          // http | llm | grpc | websocket
	MaxBody    int64    `json:"maxBody,omitempty"` // bytes; 0: no limit

	Connect       time.Duration `json:"connect"`
	ResponseHead  time.Duration `json:"responseHead"`
	Idle          time.Duration `json:"idle"`
	Total         time.Duration `json:"total,omitempty"` // 0: no limit
	WebSocketIdle time.Duration `json:"webSocketIdle"`
	WebSocketLife time.Duration `json:"webSocketLife"`
}

// What origins are asked by.
const (
	ForwardOrigin = "origin" // each by its scheme
	ForwardMatch  = "match"  // as the visitor came
	ForwardHTTP   = "http"
	ForwardHTTPS  = "https"
)

// EdgeGroup is an origin group.
type EdgeGroup struct {
	Name        string        `json:"name"` // unique in the service
	Origins     []EdgeOrigin  `json:"origins"`
	Sensitivity time.Duration `json:"sensitivity,omitempty"`
	// ByPriority: with no origin healthy, those of the best priority take turns, and not all.
	ByPriority bool          `json:"byPriority,omitempty"`
	Affinity   bool          `json:"affinity,omitempty"`
	Ramp       time.Duration `json:"ramp,omitempty"`
	Drain      time.Duration `json:"drain,omitempty"`
	Health     EdgeHealth    `json:"health"`

	Failures int           `json:"failures,omitempty"` // in a row, that take an origin out; 0: never
	Out      time.Duration `json:"out,omitempty"`
	MaxOut   time.Duration `json:"maxOut,omitempty"`

	Attempts          int    `json:"attempts,omitempty"`   // further origins tried
	BufferBody        int64  `json:"bufferBody,omitempty"` // bytes of a body kept to be sent again
	IdempotencyHeader string `json:"idempotencyHeader,omitempty"`

	PerOrigin    int           `json:"perOrigin,omitempty"` // requests at once; 0: no bound
	Queue        int           `json:"queue,omitempty"`
	QueueTimeout time.Duration `json:"queueTimeout,omitempty"`

	MaxConnections int           `json:"maxConnections,omitempty"` // to one origin; 0: no bound
	MaxIdle        int           `json:"maxIdle,omitempty"`
	IdleTimeout    time.Duration `json:"idleTimeout"`
}

// EdgeOrigin is one origin.
type EdgeOrigin struct {
	Name string `json:"name"` // unique in the group
	// Host is an IP address, or a name that the node resolves.
	Host       string `json:"host"`
	HTTPPort   int    `json:"httpPort"`
	HTTPSPort  int    `json:"httpsPort"`
	Scheme     string `json:"scheme"` // http | https
	HTTP2      bool   `json:"http2,omitempty"`
	HostHeader string `json:"hostHeader,omitempty"` // "": that of the request
	ServerName string `json:"serverName"`           // looked for in the certificate; a name is sent as SNI
	Verify     bool   `json:"verify"`
	Roots      string `json:"roots,omitempty"` // PEM; "": those of the system
	Priority   int    `json:"priority"`
	Weight     int    `json:"weight"`
	Enabled    bool   `json:"enabled"`
	Drain      bool   `json:"drain,omitempty"`
}

// Port is the origin's port for http or https.
func (o *EdgeOrigin) Port(scheme string) int {
	if scheme == "https" {
		return o.HTTPSPort
	}
	return o.HTTPPort
}

// EdgeHealth says how the origins of a group are probed: with a new connection each time, not following redirects, and
// only 200 is a success.
type EdgeHealth struct {
	Enabled   bool          `json:"enabled"`
	GRPC      bool          `json:"grpc,omitempty"` // grpc.health.v1.Health/Check for the service behind the / of Path
	Path      string        `json:"path,omitempty"`
	Method    string        `json:"method,omitempty"`
	Scheme    string        `json:"scheme,omitempty"` // "": that of each origin
	Interval  time.Duration `json:"interval,omitempty"`
	Timeout   time.Duration `json:"timeout,omitempty"`
	Samples   int           `json:"samples"`
	Successes int           `json:"successes"`
}

// EdgeAccess refuses or admits who fits. What is empty fits everybody.
type EdgeAccess struct {
	Allow      bool           `json:"allow,omitempty"` // else deny
	Countries  []string       `json:"countries,omitempty"`
	Prefixes   []netip.Prefix `json:"prefixes,omitempty"`
	Referers   []string       `json:"referers,omitempty"` // hosts; *.example.com
	UserAgents []string       `json:"userAgents,omitempty"`
	Paths      []string       `json:"paths,omitempty"`
}

// EdgeLimit bounds the requests of one client: Requests in Per, Burst at once.
type EdgeLimit struct {
	Paths    []string      `json:"paths"`
	Header   string        `json:"header,omitempty"` // whose value is the client; "": its address
	Requests int           `json:"requests"`
	Per      time.Duration `json:"per"`
	Burst    int           `json:"burst"`
}

// EdgeHeaders sets and removes headers of responses.
type EdgeHeaders struct {
	Paths  []string          `json:"paths"`
	Set    map[string]string `json:"set,omitempty"`
	Remove []string          `json:"remove,omitempty"`
}

// EdgeRuleSet is a list of rules, run in order.
type EdgeRuleSet struct {
	Name  string     `json:"name"`
	Rules []EdgeRule `json:"rules"`
}

// EdgeRule does its actions when all of its conditions hold.
type EdgeRule struct {
	Name       string          `json:"name"`
	Conditions []EdgeCondition `json:"conditions,omitempty"`
	Actions    []EdgeAction    `json:"actions"`
	Stop       bool            `json:"stop,omitempty"`
}

// EdgeCondition is as spec.Condition.
type EdgeCondition struct {
	On         string   `json:"on"`
	Name       string   `json:"name,omitempty"`
	Operator   string   `json:"operator"`
	Values     []string `json:"values,omitempty"`
	Negate     bool     `json:"negate,omitempty"`
	Transforms []string `json:"transforms,omitempty"`
}

// EdgeAction is as spec.RuleAction: exactly one of its fields is set.
type EdgeAction struct {
	RequestHeader  *EdgeHeaderAction `json:"requestHeader,omitempty"`
	ResponseHeader *EdgeHeaderAction `json:"responseHeader,omitempty"`
	Redirect       *EdgeRedirect     `json:"redirect,omitempty"`
	Rewrite        *EdgeRewrite      `json:"rewrite,omitempty"`
	Route          *EdgeOverride     `json:"route,omitempty"`
	Respond        *EdgeRespond      `json:"respond,omitempty"`
}

// EdgeHeaderAction changes a header.
type EdgeHeaderAction struct {
	Operation string `json:"operation"` // set | append | delete
	Name      string `json:"name"`
	Value     string `json:"value,omitempty"` // a template
}

// EdgeRedirect leads to another URL. Host, Path, Query and Fragment are templates; "" is what the request has.
type EdgeRedirect struct {
	Status    int    `json:"status"`
	Scheme    string `json:"scheme"` // match | http | https
	Host      string `json:"host,omitempty"`
	Path      string `json:"path,omitempty"`
	Query     string `json:"query,omitempty"`
	Fragment  string `json:"fragment,omitempty"`
	DropQuery bool   `json:"dropQuery,omitempty"`
}

// EdgeRewrite changes the path that the origin is asked for.
type EdgeRewrite struct {
	Source      string `json:"source"`
	Destination string `json:"destination"` // a template
	Preserve    bool   `json:"preserve,omitempty"`
}

// EdgeOverride overrides settings of the route; "" leaves one as it is. Without Cache the response is not kept.
type EdgeOverride struct {
	Group   string `json:"group,omitempty"`
	Forward string `json:"forward,omitempty"`
	Cache   bool   `json:"cache,omitempty"`
}

// EdgeRespond is an answer of the gateway's own.
type EdgeRespond struct {
	Status      int    `json:"status"`
	ContentType string `json:"contentType"`
	Body        string `json:"body,omitempty"`
}

// EdgeCertificate says what a certificate is for and where it comes from: files of the node, or EdgeSecrets by its name.
type EdgeCertificate struct {
	Name      string   `json:"name"`
	Domains   []string `json:"domains"` // *.example.com is one label deep
	ChainFile string   `json:"chainFile,omitempty"`
	KeyFile   string   `json:"keyFile,omitempty"`
}

// EdgeSecrets is what gateways need besides and nobody else may see. It is sealed to each gateway, on its way and on its
// disk.
type EdgeSecrets struct {
	Certificates []EdgeKeyPair `json:"certificates,omitempty"` // by name
	// Affinity are the keys of session cookies; the first makes new ones.
	Affinity []EdgeAffinityKey `json:"affinity,omitempty"`
	// Tickets are the keys of TLS session tickets; the first makes new ones. None: each gateway makes its own.
	Tickets []EdgeTicketKey `json:"tickets,omitempty"`
}

// EdgeKeyPair is a chain with its key.
type EdgeKeyPair struct {
	Name  string  `json:"name"`
	Chain string  `json:"chain"` // PEM, the server's certificate first
	Key   Carried `json:"key"`   // PEM
}

// EdgeAffinityKey is a key of session cookies.
type EdgeAffinityKey struct {
	ID     byte    `json:"id"`
	Secret Carried `json:"secret"` // base64, of 32 bytes
}
