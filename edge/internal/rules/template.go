package rules

import (
	"fmt"
	"strconv"

	"steerpoint/internal/ruletext"
)

// variable is a server variable.
type variable uint8

const (
	plainText variable = iota
	socketIP
	clientIP
	clientPort
	hostname
	geoCountry
	httpMethod
	httpVersion
	queryString
	requestScheme
	requestURI
	sslProtocol
	serverPort
	urlPath
)

// variableOf gives the variable of a name; plainText for none.
func variableOf(name string) variable {
	switch name {
	case "socket_ip":
		return socketIP
	case "client_ip":
		return clientIP
	case "client_port":
		return clientPort
	case "hostname":
		return hostname
	case "geo_country":
		return geoCountry
	case "http_method":
		return httpMethod
	case "http_version":
		return httpVersion
	case "query_string":
		return queryString
	case "request_scheme":
		return requestScheme
	case "request_uri":
		return requestURI
	case "ssl_protocol":
		return sslProtocol
	case "server_port":
		return serverPort
	case "url_path":
		return urlPath
	}
	return plainText
}

// template is a text with variables, compiled.
type template []piece

type piece struct {
	text  string
	what  variable
	slice ruletext.Slice
}

func newTemplate(text string) (template, error) {
	parts, err := ruletext.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("template %q: %w", text, err)
	}
	var t template
	for _, p := range parts {
		what := variableOf(p.Variable)
		if p.Variable != "" && what == plainText {
			return nil, fmt.Errorf("template %q: variable %s is not known here", text, p.Variable)
		}
		t = append(t, piece{p.Text, what, p.Slice})
	}
	return t, nil
}

// appendTo appends the text for a request. Bytes that no header can hold are left out of it, whatever a variable has.
func (t template) appendTo(dst []byte, r *Request) []byte {
	start := len(dst)
	for i := range t {
		p := &t[i]
		if p.what == plainText {
			dst = append(dst, p.text...)
			continue
		}
		from := len(dst)
		dst = appendVariable(dst, r, p.what)
		n := copy(dst[from:], p.slice.Of(dst[from:]))
		dst = dst[:from+n]
	}
	return printable(dst, start)
}

// printable takes control characters out of what follows start.
func printable(dst []byte, start int) []byte {
	out := dst[:start]
	for _, c := range dst[start:] {
		if c >= ' ' && c != 0x7f {
			out = append(out, c)
		}
	}
	return out
}

func appendVariable(dst []byte, r *Request, what variable) []byte {
	switch what {
	case socketIP:
		return appendAddress(dst, r, true)
	case clientIP:
		return appendAddress(dst, r, false)
	case clientPort:
		return strconv.AppendUint(dst, uint64(r.Client.Port()), 10)
	case hostname:
		return append(dst, r.Host...)
	case geoCountry:
		return append(dst, r.Country...)
	case httpMethod:
		return append(dst, r.Method...)
	case httpVersion:
		dst = append(append(dst, "HTTP/"...), r.Version...)
		if r.Version == "2" || r.Version == "3" {
			dst = append(dst, ".0"...) // as Azure writes it
		}
		return dst
	case queryString:
		return append(dst, r.Query...)
	case requestScheme:
		return append(dst, r.Scheme...)
	case requestURI:
		return appendURL(dst, r)
	case sslProtocol:
		return append(dst, r.TLS...)
	case serverPort:
		return strconv.AppendUint(dst, uint64(r.ServerPort), 10)
	case urlPath:
		if len(r.Path) > 0 {
			dst = append(dst, r.Path[1:]...) // without its first slash
		}
	}
	return dst
}

func appendAddress(dst []byte, r *Request, socket bool) []byte {
	a := r.Client.Addr()
	if socket {
		a = r.Socket.Addr()
	}
	if !a.IsValid() {
		return dst
	}
	return a.Unmap().AppendTo(dst)
}

// appendURL appends the URL of a request as the visitor wrote it, the fragment apart, which nobody sends.
func appendURL(dst []byte, r *Request) []byte {
	dst = append(append(dst, r.Scheme...), "://"...)
	dst = append(dst, r.Host...)
	dst = appendPort(dst, r)
	dst = append(dst, r.Path...)
	if r.HasQuery {
		dst = append(append(dst, '?'), r.Query...)
	}
	return dst
}

func appendPort(dst []byte, r *Request) []byte {
	if r.Port == 0 {
		return dst
	}
	return strconv.AppendUint(append(dst, ':'), uint64(r.Port), 10)
}
