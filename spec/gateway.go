package spec

// OriginGroup is a set of origins the gateway chooses from (edge.md, "Origin choice").
type OriginGroup struct {
	Name               string      `json:"name" required:"true" format:"label" doc:"name of the group, unique in the service"`
	Origins            []Origin    `json:"origins" required:"true" item:"origin" doc:"where content comes from"`
	LatencySensitivity Duration    `json:"latencySensitivity" default:"0s" min:"0s" max:"1s" doc:"origins at most this much slower than the fastest share the traffic"`
	Health             Health      `json:"health" doc:"health probes of the gateway"`
	AllDown            string      `json:"allDown" default:"roundRobin" enum:"roundRobin,priority" doc:"when no origin is healthy: all in turn, or by priority and weight"`
	SessionAffinity    bool        `json:"sessionAffinity" default:"false" doc:"keep a visitor on one origin by cookie"`
	RestoreRamp        Duration    `json:"restoreRamp" default:"0s" min:"0s" max:"24h" doc:"time over which the share of a returning origin grows"`
	Concurrency        Concurrency `json:"concurrency" doc:"bounds on requests at once"`
}

// Origin is one server content comes from.
type Origin struct {
	Name       string   `json:"name" required:"true" format:"label" doc:"name of the origin, unique in its group"`
	Address    HostPort `json:"address" required:"true" doc:"address or name, with port: 203.0.113.10:443"`
	Scheme     string   `json:"scheme" default:"https" enum:"http,https" doc:"protocol to the origin"`
	HostHeader HostName `json:"hostHeader" dynamic:"the host of the request" doc:"Host sent to the origin"`
	Priority   int      `json:"priority" default:"1" min:"1" max:"5" doc:"lower goes first"`
	Weight     int      `json:"weight" default:"50" min:"1" max:"1000" doc:"share among origins equally good"`
	Enabled    bool     `json:"enabled" default:"true" doc:"false takes the origin out"`
}

// Health says how a gateway probes the origins of a group.
type Health struct {
	Path              string   `json:"path" default:"/" format:"path" doc:"path asked for"`
	Method            string   `json:"method" default:"HEAD" enum:"HEAD,GET" doc:"HTTP method"`
	Scheme            string   `json:"scheme" default:"https" enum:"http,https" doc:"protocol of the probe"`
	Interval          Duration `json:"interval" default:"30s" min:"1s" max:"1h" doc:"time between probes"`
	SampleSize        int      `json:"sampleSize" default:"4" min:"1" max:"100" doc:"results looked at"`
	SuccessfulSamples int      `json:"successfulSamples" default:"3" min:"1" max:"100" doc:"successes among them that make an origin healthy"`
}

// Concurrency bounds requests at once.
type Concurrency struct {
	PerOrigin    int      `json:"perOrigin" default:"0" min:"0" max:"1000000" doc:"requests at once to one origin; 0: no bound"`
	Queue        int      `json:"queue" default:"0" min:"0" max:"1000000" doc:"requests that may wait beyond that"`
	QueueTimeout Duration `json:"queueTimeout" default:"0s" min:"0s" max:"1h" doc:"time one may wait; 0s: until the request's own timeout"`
}

// Route says which requests go to which origin group.
type Route struct {
	Name        string   `json:"name" required:"true" format:"label" doc:"name of the route, unique in the service"`
	Domains     []Domain `json:"domains" maxItems:"1000" dynamic:"all of the service" doc:"domains of the service it is for"`
	Paths       []string `json:"paths" default:"/*" format:"path" doc:"exact paths, or prefixes that end in /*"`
	OriginGroup string   `json:"originGroup" required:"true" format:"label" doc:"where requests go"`
	RuleSets    []string `json:"ruleSets" format:"label" doc:"names of RuleSets, run in this order"`
	Cache       bool     `json:"cache" default:"false" doc:"whether responses may be kept"`
	Protocol    string   `json:"protocol" default:"http" enum:"http,llm,grpc,websocket" doc:"what the route carries; WebSocket upgrades on an http route are recognised"`
}

// Policies apply to our gateways and are translated for every managed edge.
type Policies struct {
	Cache           []CachePolicy  `json:"cache" maxItems:"1000" item:"cache policy" doc:"what is kept how long"`
	Access          []AccessPolicy `json:"access" maxItems:"1000" item:"access policy" doc:"who is refused; the first that matches decides"`
	RateLimit       []RateLimit    `json:"rateLimit" maxItems:"1000" item:"rate limit" doc:"how many requests one client may send"`
	ResponseHeaders []HeaderPolicy `json:"responseHeaders" maxItems:"1000" item:"header policy" doc:"headers set on or removed from responses"`
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
	Referers   []string  `json:"referers" doc:"hosts of the Referer header"`
	UserAgents []string  `json:"userAgents" doc:"texts the User-Agent header holds"`
	Paths      []string  `json:"paths" format:"path" dynamic:"every path" doc:"exact paths, or prefixes that end in /*"`
}

// RateLimit bounds the requests of one client.
type RateLimit struct {
	Paths    []string `json:"paths" default:"/*" format:"path" doc:"exact paths, or prefixes that end in /*"`
	Key      string   `json:"key" default:"ip" enum:"ip" doc:"what one client is"`
	Requests int      `json:"requests" required:"true" min:"1" max:"1000000000" doc:"requests allowed"`
	Per      Duration `json:"per" default:"1m" min:"1s" max:"24h" doc:"in this time"`
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
