package spec

// OriginGroup is a set of origins the gateway chooses from (edge.md, "Origin choice").
type OriginGroup struct {
	Name               string      `json:"name" required:"true" format:"label" doc:"name of the group, unique in the service"`
	Origins            []Origin    `json:"origins" required:"true" maxItems:"64" item:"origin" doc:"where content comes from"`
	LatencySensitivity Duration    `json:"latencySensitivity" default:"0s" min:"0s" max:"1s" doc:"origins at most this much slower than the fastest share the traffic; 0s: only those as fast in whole milliseconds"`
	Health             Health      `json:"health" doc:"health probes; each gateway node measures for itself"`
	Passive            Passive     `json:"passive" doc:"origins taken out because requests to them fail"`
	AllDown            string      `json:"allDown" default:"roundRobin" enum:"roundRobin,priority" doc:"when no origin is healthy: all take turns, or those of the best priority"`
	SessionAffinity    bool        `json:"sessionAffinity" default:"false" doc:"keep a visitor on one origin by the cookies ASLBSA and ASLBSACORS"`
	RestoreRamp        Duration    `json:"restoreRamp" default:"0s" min:"0s" max:"24h" doc:"time over which the share of a returning origin grows; 0s: it has all of it at once"`
	DrainDeadline      Duration    `json:"drainDeadline" default:"5m" min:"0s" max:"24h" doc:"time that sessions and streams may stay with an origin that is draining"`
	Retry              Retry       `json:"retry" doc:"when another origin is tried"`
	Concurrency        Concurrency `json:"concurrency" doc:"bounds on requests at once"`
	Connections        Connections `json:"connections" doc:"connections to the origins, by gateway node"`
}

// Origin is one server content comes from.
type Origin struct {
	Name       string    `json:"name" required:"true" format:"label" doc:"name of the origin, unique in its group"`
	Address    HostPort  `json:"address" required:"true" doc:"address or name, with port: 203.0.113.10:443"`
	Scheme     string    `json:"scheme" default:"https" enum:"http,https" doc:"what the origin speaks at the port of address"`
	HTTPPort   int       `json:"httpPort" dynamic:"the port of address with scheme http, else 80" min:"1" max:"65535" doc:"port for http, where a route forwards by it"`
	HTTPSPort  int       `json:"httpsPort" dynamic:"the port of address with scheme https, else 443" min:"1" max:"65535" doc:"port for https, where a route forwards by it"`
	Protocol   string    `json:"protocol" default:"http1" enum:"http1,http2" doc:"version of HTTP to the origin; http2 without TLS is spoken with prior knowledge"`
	HostHeader HostName  `json:"hostHeader" dynamic:"the host of the request" doc:"Host sent to the origin"`
	TLS        OriginTLS `json:"tls" doc:"TLS to the origin"`
	Priority   int       `json:"priority" default:"1" min:"1" max:"5" doc:"lower goes first; several may share one"`
	Weight     int       `json:"weight" default:"50" min:"1" max:"1000" doc:"share among origins equally good"`
	Enabled    bool      `json:"enabled" default:"true" doc:"false takes the origin out at once, from probes too"`
	Drain      bool      `json:"drain" default:"false" doc:"true: no new sessions; those there are stay until drainDeadline"`
}

// OriginTLS is how an origin's certificate is looked at.
type OriginTLS struct {
	ServerName HostName `json:"serverName" dynamic:"hostHeader, else the host in address" doc:"name sent as SNI, and looked for in the certificate; an IP address is looked for as such and is not sent"`
	Verify     bool     `json:"verify" default:"true" doc:"false accepts any certificate: whoever is on the way can read and change what passes"`
	Roots      string   `json:"roots" format:"text" doc:"certificates in PEM form that sign the origin's, instead of those of the node's system"`
}

// Health says how a gateway probes the origins of a group.
type Health struct {
	Enabled           bool     `json:"enabled" default:"true" doc:"false: nothing is probed; allowed only with one enabled origin"`
	Kind              string   `json:"kind" default:"http" enum:"http,grpc" doc:"what is asked for: a path, or the health that a gRPC server tells (grpc.health.v1.Health/Check)"`
	Path              string   `json:"path" default:"/" format:"path" doc:"path asked for; kind grpc: / and the name of a gRPC service, or / for the whole server"`
	Method            string   `json:"method" default:"HEAD" enum:"HEAD,GET" doc:"HTTP method"`
	Scheme            string   `json:"scheme" dynamic:"the scheme of each origin" enum:"http,https" doc:"protocol of the probe; the port is the origin's for it"`
	Interval          Duration `json:"interval" default:"30s" min:"1s" max:"1h" doc:"time between probes; of groups that share an origin the shortest counts"`
	Timeout           Duration `json:"timeout" dynamic:"5s, or the interval if that is less" min:"10ms" max:"1h" doc:"time a probe may take, to the last byte; at most the interval"`
	SampleSize        int      `json:"sampleSize" default:"4" min:"1" max:"100" doc:"results looked at"`
	SuccessfulSamples int      `json:"successfulSamples" default:"3" min:"1" max:"100" doc:"successes (status 200, nothing else) among them that make an origin healthy"`
}

// Passive says when failing requests take an origin out.
type Passive struct {
	Failures int      `json:"failures" default:"5" min:"0" max:"1000" doc:"failures in a row (no connection, no complete response head, a status of 500 and above) that take an origin out; 0: never"`
	Out      Duration `json:"out" default:"30s" min:"1s" max:"1h" doc:"how long it is out the first time; twice as long the second time in succession, and so on"`
	MaxOut   Duration `json:"maxOut" default:"5m" min:"1s" max:"24h" doc:"longest time out"`
}

// Retry says when another origin of the group is tried: never after the first byte of a response.
type Retry struct {
	Attempts          int    `json:"attempts" default:"1" min:"0" max:"5" doc:"further origins tried when there was no connection, or it closed before a complete response head"`
	BufferBody        Size   `json:"bufferBody" default:"64KiB" min:"0B" max:"16MiB" doc:"body of a request kept, so that it can be sent again; a longer one is not sent twice"`
	IdempotencyHeader string `json:"idempotencyHeader" format:"token" doc:"header that says that a request may be sent twice although its method does not, such as Idempotency-Key"`
}

// Concurrency bounds requests at once.
type Concurrency struct {
	PerOrigin    int      `json:"perOrigin" default:"0" min:"0" max:"1000000" doc:"requests at once to one origin, by gateway node; 0: no bound"`
	Queue        int      `json:"queue" default:"0" min:"0" max:"1000000" doc:"requests that may wait beyond that"`
	QueueTimeout Duration `json:"queueTimeout" default:"0s" min:"0s" max:"1h" doc:"time one may wait; 0s: until the request's own timeout"`
}

// Connections says how connections to origins are kept.
type Connections struct {
	Max         int      `json:"max" default:"0" min:"0" max:"1000000" doc:"connections to one origin; 0: no bound"`
	Idle        int      `json:"idle" default:"64" min:"0" max:"100000" doc:"connections to one origin kept without a request; 0: none is used twice"`
	IdleTimeout Duration `json:"idleTimeout" default:"4s" min:"100ms" max:"1h" doc:"how long one is kept; it must be shorter than the origin's own, or requests meet connections that just closed"`
}

// Route says which requests go to which origin group.
type Route struct {
	Name            string        `json:"name" required:"true" format:"label" doc:"name of the route, unique in the service"`
	Domains         []Domain      `json:"domains" maxItems:"1000" dynamic:"all of the service" doc:"domains of the service it is for"`
	Paths           []string      `json:"paths" default:"/*" maxItems:"1000" format:"path" doc:"exact paths, or prefixes that end in /*; case counts, and the most specific path of a domain wins"`
	Protocols       []string      `json:"protocols" default:"http,https" enum:"http,https" doc:"what visitors may come by"`
	HTTPSRedirect   bool          `json:"httpsRedirect" default:"false" doc:"answer http with 307 to the same URL by https"`
	OriginGroup     string        `json:"originGroup" required:"true" format:"label" doc:"where requests go"`
	OriginPath      string        `json:"originPath" format:"path" doc:"path put in the place of what the route's path matches: with paths /img/* and originPath /assets/, /img/a.png becomes /assets/a.png"`
	ForwardProtocol string        `json:"forwardProtocol" default:"origin" enum:"origin,match,http,https" doc:"what origins are asked by: each by its scheme, as the visitor came, or this"`
	RuleSets        []string      `json:"ruleSets" format:"label" doc:"names of RuleSets, run in this order"`
	Cache           bool          `json:"cache" default:"false" doc:"whether responses may be kept"`
	Protocol        string        `json:"protocol" default:"http" enum:"http,llm,grpc,websocket" doc:"what the route carries; WebSocket upgrades on an http route are recognised"`
	MaxBody         Size          `json:"maxBody" default:"2GiB" min:"0B" max:"1024GiB" doc:"longest body of a request; a longer one gets 413; 0B: no limit"`
	Timeouts        RouteTimeouts `json:"timeouts" doc:"each counts by itself"`
}

// RouteTimeouts are the timeouts of a request.
type RouteTimeouts struct {
	Connect       Duration `json:"connect" default:"5s" min:"10ms" max:"1m" doc:"for a connection to one origin, TLS included"`
	ResponseHead  Duration `json:"responseHead" default:"30s" min:"10ms" max:"1h" doc:"from the end of the request to the end of the response head; then 504"`
	Idle          Duration `json:"idle" default:"30s" min:"1s" max:"24h" doc:"longest gap within a body, of request or response; streams that are silent longer need more"`
	Total         Duration `json:"total" default:"0s" min:"0s" max:"24h" doc:"for the whole exchange; 0s: no limit"`
	WebSocketIdle Duration `json:"webSocketIdle" default:"5m" min:"1s" max:"24h" doc:"longest silence of a WebSocket, both ways"`
	WebSocketLife Duration `json:"webSocketLife" default:"4h" min:"1m" max:"168h" doc:"longest life of a WebSocket"`
}

// Policies apply to our gateways and are translated for every managed edge.
type Policies struct {
	Cache           []CachePolicy  `json:"cache" maxItems:"1000" item:"cache policy" doc:"what is kept how long"`
	Access          []AccessPolicy `json:"access" maxItems:"1000" item:"access policy" doc:"who is refused with 403; the first that matches decides, and who none matches is admitted"`
	RateLimit       []RateLimit    `json:"rateLimit" maxItems:"1000" item:"rate limit" doc:"how many requests one client may send; every one that matches must admit a request"`
	ResponseHeaders []HeaderPolicy `json:"responseHeaders" maxItems:"1000" item:"header policy" doc:"headers set on or removed from responses, in this order"`
}

// CachePolicy says what is kept and for how long.
type CachePolicy struct {
	Paths         []string `json:"paths" default:"/*" format:"path" doc:"exact paths, or prefixes that end in /*"`
	TTL           Duration `json:"ttl" required:"true" min:"0s" max:"8760h" doc:"how long a response is kept"`
	Query         string   `json:"query" default:"include" enum:"include,ignore" doc:"whether the query string is part of the key"`
	BypassCookies []string `json:"bypassCookies" format:"token" doc:"requests with one of these cookies are not answered from the cache"`
}

// AccessPolicy refuses or admits requests. All conditions given must hold; a list holds when one of it does.
type AccessPolicy struct {
	Action     string    `json:"action" required:"true" enum:"deny,allow" doc:"what happens to a request that matches"`
	Countries  []Country `json:"countries" maxItems:"300" doc:"countries of the client"`
	CIDRs      []Prefix  `json:"cidrs" maxItems:"10000" doc:"addresses of the client"`
	Referers   []string  `json:"referers" doc:"hosts of the Referer header; *.example.com for all names below one"`
	UserAgents []string  `json:"userAgents" doc:"texts the User-Agent header holds, in any case"`
	Paths      []string  `json:"paths" format:"path" dynamic:"every path" doc:"exact paths, or prefixes that end in /*"`
}

// RateLimit bounds the requests of one client: by the generic cell rate algorithm, so that no window has an edge.
type RateLimit struct {
	Paths    []string `json:"paths" default:"/*" format:"path" doc:"exact paths, or prefixes that end in /*"`
	Key      string   `json:"key" default:"ip" enum:"ip,header" doc:"what one client is: its address (of IPv6 the first 64 bits), or the value of a header"`
	Header   string   `json:"header" format:"token" doc:"the header, with key: header; requests without it are counted by address"`
	Requests int      `json:"requests" required:"true" min:"1" max:"1000000000" doc:"requests allowed"`
	Per      Duration `json:"per" default:"1m" min:"1s" max:"24h" doc:"in this time"`
	Burst    int      `json:"burst" dynamic:"requests" min:"1" max:"1000000000" doc:"requests that may come at once"`
	Action   string   `json:"action" default:"reject" enum:"reject" doc:"what happens beyond it: 429 with Retry-After"`
}

// HeaderPolicy changes response headers.
type HeaderPolicy struct {
	Paths  []string          `json:"paths" default:"/*" format:"path" doc:"exact paths, or prefixes that end in /*"`
	Set    map[string]string `json:"set" doc:"headers to set"`
	Remove []string          `json:"remove" format:"token" doc:"headers to remove"`
}

// Acceleration says how a service uses the overlay (overlay.md).
type Acceleration struct {
	Enabled  bool     `json:"enabled" default:"false" doc:"send requests to origins over the overlay"`
	Overlay  string   `json:"overlay" format:"label" doc:"name of the Overlay"`
	Variant  string   `json:"variant" default:"site" enum:"site,app" doc:"site: planned parents; app: straight to the origins"`
	Strategy string   `json:"strategy" default:"quality" format:"word" doc:"how paths are chosen"`
	Pool     []string `json:"pool" doc:"relays that may be used; empty: all"`
}
