package octodns

import (
	"net"
	"strings"

	"steerpoint/internal/importer"
)

// probe makes the probe octoDNS sets up at a provider: a 200 of https://NAME/_dns, or what octodns.healthcheck says.
func (c *converter) probe(svc *importer.Service, r *record) importer.Probe {
	h := r.n.Get("octodns").Get("healthcheck")
	text := func(key, otherwise string) string {
		if f := h.Get(key); f != nil && !f.Null {
			return strings.TrimSuffix(f.Str(), ".")
		}
		h.Get(key).Use()
		return otherwise
	}
	scheme := strings.ToLower(text("protocol", "HTTPS"))
	port := text("port", "443") // for http too
	host := text("host", svc.Host())
	path := text("path", "/_dns")
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	p := importer.Probe{Method: "GET", Status: "200"}
	switch scheme {
	case "tcp":
		path, p = "", importer.Probe{}
	case "http", "https":
	default:
		c.b.Lost(h, "healthcheck of "+r.name+" by "+strings.ToUpper(scheme), "nothing is probed, so nothing moves by itself", "set probe.url to something that tells that an edge works, and probe.enabled: true")
		return importer.Probe{Off: true}
	}
	address := net.JoinHostPort(host, port)
	if scheme == "https" && port == "443" || scheme == "http" && port == "80" {
		address = strings.TrimSuffix(address, ":"+port)
	}
	u, err := importer.ProbeURL(scheme + "://" + address + path)
	if err != nil {
		c.b.Lost(h, "healthcheck "+scheme+"://"+address+path+" of "+r.name, "a probe of https://"+svc.Host()+"/_dns: it "+err.Error(), "set probe.url")
		u = "https://" + svc.Host() + "/_dns"
	}
	p.URL = u
	return p
}
