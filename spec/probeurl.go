package spec

import (
	"cmp"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"steerpoint/spec/internal/names"
)

// ProbeURL is the URL of a probe in its one form: lower-case scheme and host (A-labels), no user, no fragment, and
// behind the host what its scheme has there.
type ProbeURL string

// scheme is one kind of URL a probe may have.
type scheme struct {
	name, form string
	port       int // the usual one; 0: it has to be written
	noPort     bool
	// rest checks what stands behind the host, and brings it into its one form.
	rest func(*url.URL) *valueError
}

// schemes lists them; the table is not changed.
var schemes = []scheme{
	{name: "https", form: "https://host/path", port: 443, rest: webRest},
	{name: "http", form: "http://host/path", port: 80, rest: webRest},
	{name: "tcp", form: "tcp://host:port", rest: noRest},
	{name: "udp16", form: "udp16://host:port", port: 7077, rest: noRest},
	{name: "dns", form: "dns://host/name?type=A&rcode=NOERROR", port: 53, rest: dnsRest},
	{name: "icmp", form: "icmp://host", noPort: true, rest: noRest},
	{name: "grpc", form: "grpc://host:port/service", rest: grpcRest},
	{name: "grpcs", form: "grpcs://host/service", port: 443, rest: grpcRest},
}

func schemeOf(name string) *scheme {
	for i := range schemes {
		if schemes[i].name == name {
			return &schemes[i]
		}
	}
	return nil
}

// probeURLForms is every form, for errors.
func probeURLForms() string {
	forms := make([]string, len(schemes))
	for i, s := range schemes {
		forms[i] = s.form
	}
	return strings.Join(forms[:len(forms)-1], ", ") + " or " + forms[len(forms)-1]
}

// MarshalText writes it.
func (u ProbeURL) MarshalText() ([]byte, error) { return []byte(u), nil }

// UnmarshalText reads a URL of one of the schemes.
func (u *ProbeURL) UnmarshalText(text []byte) error {
	v, err := url.Parse(string(text))
	if err != nil || v.Scheme == "" || v.Host == "" {
		return &valueError{CodeBadURL, "is not a URL with a scheme and a host", probeURLForms(), ""}
	}
	s := schemeOf(v.Scheme)
	switch {
	case s == nil:
		return &valueError{CodeBadURL, fmt.Sprintf("has the scheme %q", v.Scheme), probeURLForms(), ""}
	case v.User != nil:
		return &valueError{CodeBadURL, "holds a user or a password", s.form + "; credentials have no place in a probe", ""}
	case v.Fragment != "":
		return &valueError{CodeBadURL, "has a fragment, which is never sent", s.form, ""}
	}
	if e := s.checkPort(v.Port()); e != nil {
		return e
	}
	host, err := canonicalHost(v.Hostname())
	if err != nil {
		return &valueError{CodeBadURL, "has the host " + strconv.Quote(v.Hostname()) + ", which " + err.Error(), s.form, ""}
	}
	if p := v.Port(); p != "" {
		host += ":" + p
	}
	v.Host = host
	if e := s.rest(v); e != nil {
		e.allowed = cmp.Or(e.allowed, s.form)
		return e
	}
	*u = ProbeURL(v.String())
	return nil
}

func (s *scheme) checkPort(port string) *valueError {
	switch {
	case port == "" && s.port == 0 && !s.noPort:
		return &valueError{CodeBadURL, "needs a port", s.form, ""}
	case port == "":
		return nil
	case s.noPort:
		return &valueError{CodeBadURL, "has a port, and " + s.name + " has none", s.form, ""}
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return &valueError{CodeBadURL, fmt.Sprintf("has the port %q", port), "a port from 1 to 65535", ""}
	}
	return nil
}

func webRest(v *url.URL) *valueError {
	if v.Path == "" {
		v.Path = "/"
	}
	return nil
}

func noRest(v *url.URL) *valueError {
	if strings.Trim(v.Path, "/") != "" || v.RawQuery != "" {
		return &valueError{CodeBadURL, "has something behind its host", "", ""}
	}
	v.Path, v.RawPath, v.ForceQuery = "", "", false // the first version kept a lone "?"
	return nil
}

// grpcRest takes the name of a service, as protocol buffers have it; without one the health of the whole server is asked.
func grpcRest(v *url.URL) *valueError {
	service := strings.TrimPrefix(v.Path, "/")
	switch {
	case v.RawQuery != "" || v.ForceQuery:
		return &valueError{CodeBadURL, "has a query, and a health check has none", "", ""}
	case !grpcService(service):
		return &valueError{CodeBadURL, fmt.Sprintf("has the service %q, which is no name of a gRPC service", service), "", ""}
	}
	v.Path, v.RawPath = "/"+service, ""
	return nil
}

// grpcService reports whether a text may name a service of gRPC; "": the whole server.
func grpcService(name string) bool {
	return len(name) <= 200 && strings.Trim(name, nameChars+"ABCDEFGHIJKLMNOPQRSTUVWXYZ.") == ""
}

const nameChars = "abcdefghijklmnopqrstuvwxyz0123456789-_"

// What may be asked, and what may be wanted as an answer.
var (
	questionTypes = []string{"A", "AAAA", "CAA", "CNAME", "DNSKEY", "DS", "HTTPS", "MX", "NAPTR", "NS", "PTR", "SOA", "SRV", "SVCB", "TLSA", "TXT"}
	rcodes        = []string{"NOERROR", "NXDOMAIN", "SERVFAIL", "REFUSED", "NOTIMP", "FORMERR"}
)

// dnsRest takes a question: a name, and type and rcode, that are A and NOERROR unless they are written.
func dnsRest(v *url.URL) *valueError {
	name, err := questionName(strings.TrimPrefix(v.Path, "/"))
	if err != nil {
		return &valueError{CodeBadURL, fmt.Sprintf("asks for the name %q, which %v", strings.TrimPrefix(v.Path, "/"), err), "", ""}
	}
	q, err := url.ParseQuery(v.RawQuery)
	if err != nil {
		return &valueError{CodeBadURL, "has a query that cannot be read", "", ""}
	}
	qtype, rcode := strings.ToUpper(q.Get("type")), strings.ToUpper(q.Get("rcode"))
	for key, values := range q {
		if key != "type" && key != "rcode" || len(values) > 1 {
			return &valueError{CodeBadURL, fmt.Sprintf("has %q in its query", key), "type and rcode, each once", names.Nearest(key, []string{"type", "rcode"})}
		}
	}
	if qtype == "" {
		qtype = "A"
	}
	if rcode == "" {
		rcode = rcodes[0]
	}
	switch {
	case !slices.Contains(questionTypes, qtype):
		return &valueError{CodeBadURL, fmt.Sprintf("asks for the type %q", qtype), "the type " + strings.Join(questionTypes, ", "), names.Nearest(qtype, questionTypes)}
	case !slices.Contains(rcodes, rcode):
		return &valueError{CodeBadURL, fmt.Sprintf("wants the rcode %q", rcode), "the rcode " + strings.Join(rcodes, ", "), names.Nearest(rcode, rcodes)}
	}
	v.Path, v.RawPath, v.RawQuery, v.ForceQuery = "/"+name, "", "type="+qtype+"&rcode="+rcode, false
	return nil
}

// questionName is a name as it may be asked for: a host, or one with underscores such as _dmarc.example.com, or the root.
func questionName(s string) (string, error) {
	if s == "." {
		return s, nil
	}
	plain := strings.ToLower(strings.TrimSuffix(s, "."))
	if strings.Trim(plain, nameChars+".") != "" {
		return names.Host(s)
	}
	if len(plain) > 253 {
		return "", fmt.Errorf("has %d characters, and 253 are allowed", len(plain))
	}
	for label := range strings.SplitSeq(plain, ".") {
		if label == "" || len(label) > 63 {
			return "", fmt.Errorf("has the label %q, and a label has 1 to 63 characters", label)
		}
	}
	return plain, nil
}

// canonicalHost is an address (IPv6 in brackets) or a name of one or more labels.
func canonicalHost(host string) (string, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		if a.Is6() {
			return "[" + a.String() + "]", nil
		}
		return a.String(), nil
	}
	if strings.EqualFold(host, "localhost") {
		return "localhost", nil
	}
	return names.Host(host)
}

// Scheme is that of the URL, which is the kind of its probe.
func (u ProbeURL) Scheme() string {
	name, _, _ := strings.Cut(string(u), ":")
	return name
}

// Port is the port the URL names, or its scheme's; 0 for icmp.
func (u ProbeURL) Port() int {
	v, err := url.Parse(string(u))
	if err != nil {
		return 0
	}
	if n, err := strconv.Atoi(v.Port()); err == nil {
		return n
	}
	if s := schemeOf(v.Scheme); s != nil {
		return s.port
	}
	return 0
}
