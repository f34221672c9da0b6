package spec

// RuleSet is an ordered list of rules that routes name: what they do to the requests that their conditions hold for.
type RuleSet struct {
	Name string `json:"-"` // the resource's name

	Rules []GatewayRule `json:"rules" required:"true" maxItems:"100" item:"rule" doc:"rules, run in this order"`
}

// GatewayRule does its actions when all of its conditions hold.
type GatewayRule struct {
	Name       string       `json:"name" required:"true" format:"label" doc:"name of the rule, unique in the set"`
	Conditions []Condition  `json:"conditions" maxItems:"10" doc:"all must hold; none: the rule is for every request"`
	Actions    []RuleAction `json:"actions" required:"true" maxItems:"5" doc:"what is done, in this order"`
	Stop       bool         `json:"stop" default:"false" doc:"when it did its actions, leave out the rest of this set and all later sets"`
}

// Condition holds when one of its values fits what the request has; of several conditions all must hold.
type Condition struct {
	On         string   `json:"on" required:"true" enum:"method,scheme,httpVersion,tlsVersion,host,serverPort,url,path,fileName,fileExtension,query,queryParameter,header,cookie,clientAddress,socketAddress,clientPort,country,device,bodySize,body,postParameter,time" doc:"what is looked at"`
	Name       string   `json:"name" doc:"name of the header, cookie, queryParameter or postParameter"`
	Operator   string   `json:"operator" default:"equals" enum:"equals,any,beginsWith,endsWith,contains,regex,wildcard,cidr,geo,lessThan,lessOrEqual,greaterThan,greaterOrEqual,within" doc:"how it is compared; lessThan and the like compare numbers, and of texts the length"`
	Values     []string `json:"values" maxItems:"100" doc:"what it is compared with: one must fit"`
	Negate     bool     `json:"negate" default:"false" doc:"holds when it would not"`
	Transforms []string `json:"transforms" enum:"lowercase,uppercase,trim,removeNulls,urlEncode,urlDecode" doc:"done to what the request has, in this order, before it is compared"`
}

// RuleAction is one thing a rule does: exactly one of its fields is set.
type RuleAction struct {
	RequestHeader  *HeaderAction   `json:"requestHeader" doc:"change a header of the request, as the origin sees it"`
	ResponseHeader *HeaderAction   `json:"responseHeader" doc:"change a header of the response, as the visitor sees it"`
	Redirect       *RedirectAction `json:"redirect" doc:"answer with another URL; nothing after it is run"`
	Rewrite        *RewriteAction  `json:"rewrite" doc:"ask the origin for another path"`
	Route          *RouteAction    `json:"route" doc:"override settings of the route; without cache: true what is asked this way is not kept"`
	Respond        *RespondAction  `json:"respond" doc:"answer without asking an origin; nothing after it is run"`
}

// HeaderAction changes one header.
type HeaderAction struct {
	Operation string `json:"operation" default:"set" enum:"set,append,delete" doc:"set replaces all of that name; append adds to the value with a comma between"`
	Name      string `json:"name" required:"true" format:"token" doc:"name of the header"`
	Value     string `json:"value" doc:"its value; may hold server variables"`
}

// RedirectAction is where a visitor is sent. What is left out stays as it is in the request.
type RedirectAction struct {
	Status   int    `json:"status" default:"302" min:"301" max:"308" doc:"301, 302, 303, 307 or 308"`
	Scheme   string `json:"scheme" default:"match" enum:"match,http,https" doc:"protocol of the new URL; match: that of the request"`
	Host     string `json:"host" dynamic:"that of the request" doc:"host of the new URL, with port if need be; may hold server variables"`
	Path     string `json:"path" dynamic:"that of the request" doc:"path of the new URL; may hold server variables"`
	Query    string `json:"query" dynamic:"that of the request" doc:"query string of the new URL, without ?; may hold server variables; none: write dropQuery"`
	Fragment string `json:"fragment" doc:"fragment of the new URL, without #; may hold server variables"`
	// DropQuery is needed because an empty text and none look alike.
	DropQuery bool `json:"dropQuery" default:"false" doc:"the new URL has no query string"`
}

// RewriteAction changes the path an origin is asked for.
type RewriteAction struct {
	Source            string `json:"source" default:"/" doc:"start of the path that is replaced; a path that does not start so stays as it is"`
	Destination       string `json:"destination" required:"true" doc:"what stands in its place; may hold server variables"`
	PreserveUnmatched bool   `json:"preserveUnmatched" default:"true" doc:"what follows the source stays behind the destination; false drops it"`
}

// RouteAction overrides settings of the route for a request.
type RouteAction struct {
	OriginGroup     string `json:"originGroup" format:"label" dynamic:"that of the route" doc:"an origin group of the service; the origin is chosen there"`
	ForwardProtocol string `json:"forwardProtocol" dynamic:"that of the route" enum:"origin,match,http,https" doc:"what origins are asked by"`
	Cache           bool   `json:"cache" default:"false" doc:"whether the response may be kept"`
}

// RespondAction is an answer of the gateway's own.
type RespondAction struct {
	Status      int    `json:"status" default:"200" min:"200" max:"599" doc:"status of the answer"`
	ContentType string `json:"contentType" default:"text/plain; charset=utf-8" doc:"its media type"`
	Body        string `json:"body" format:"text" doc:"its body, as it stands here"`
}
