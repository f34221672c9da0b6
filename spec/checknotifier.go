package spec

import (
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"

	"steerpoint/spec/internal/names"
)

const (
	maxHeaders  = 20
	maxHeader   = 1024 // bytes of a name and its value
	maxFileName = 200  // bytes of a path
)

// ownHeaders are set by the program, or belong to the connection (RFC 9110 section 7.6.1).
var ownHeaders = []string{
	"connection", "content-encoding", "content-length", "content-type", "expect", "host", "keep-alive", "te", "trailer",
	"transfer-encoding", "upgrade", "user-agent",
}

// secretHeaders carry keys by their meaning.
var secretHeaders = []string{"authorization", "cookie", "proxy-authorization"}

func (c *checker) notifier(n *Notifier) {
	c.notifierURL(n)
	c.fileName("urlFile", n.URLFile)
	c.fileName("secretFile", n.SecretFile)
	c.fileName("authorizationFile", n.AuthorizationFile)
	c.oneSource("secretFile", n.SecretFile, "secretFrom", n.SecretFrom)
	c.oneSource("authorizationFile", n.AuthorizationFile, "authorizationFrom", n.AuthorizationFrom)
	if len(n.On) == 0 {
		c.fail("on", "", valueError{CodeMissing, "is empty", "at least one of switch, verdict, mass, expiry, alarm", ""})
	}
	c.unique("on", n.On, "word")
	c.unique("services", n.Services, "service")
	c.notifierHeaders(n)
	if !c.sound("type") {
		return
	}
	if n.SecretFile != "" && (n.Type == "slack" || n.Type == "wecom") {
		c.fail("secretFile", n.SecretFile, valueError{CodeContradiction, "has no effect: " + n.Type + " takes no signature, its URL is the key", "no secretFile", ""})
	}
	if n.SecretFrom != nil && (n.Type == "slack" || n.Type == "wecom") {
		c.fail("secretFrom", "", valueError{CodeContradiction, "has no effect: " + n.Type + " takes no signature, its URL is the key", "no secretFrom", ""})
	}
	if n.Chat() && n.AuthorizationFrom != nil {
		c.fail("authorizationFrom", "", valueError{CodeContradiction, "has no effect for " + n.Type, "type: webhook, or no authorizationFrom", ""})
	}
	if n.Chat() && n.AuthorizationFile != "" {
		c.fail("authorizationFile", n.AuthorizationFile, valueError{CodeContradiction, "has no effect for " + n.Type, "type: webhook, or no authorizationFile", ""})
	}
	if n.Chat() && len(n.Headers) > 0 {
		c.fail("headers", "", valueError{CodeContradiction, "have no effect for " + n.Type, "type: webhook, or no headers", ""})
	}
}

// notifierURL checks the URL. A text that may hold a key is never part of a finding.
func (c *checker) notifierURL(n *Notifier) {
	if !c.sound("type", "url", "urlFile", "urlFrom") {
		return
	}
	var set []string
	for _, f := range []struct {
		name string
		set  bool
	}{{"url", n.URL != ""}, {"urlFile", n.URLFile != ""}, {"urlFrom", n.URLFrom != nil}} {
		if f.set {
			set = append(set, f.name)
		}
	}
	switch {
	case len(set) != 1:
		problem := "has none of them"
		if len(set) > 1 {
			problem = "has " + strings.Join(set, " and ")
		}
		c.fail("", "", valueError{CodeOneOf, problem, "exactly one of url, urlFrom and urlFile", ""})
		return
	case n.URL == "":
		return
	case n.Chat():
		c.fail("url", "", valueError{CodeSecret, "is a key for " + n.Type + ": whoever reads it can post to the group", "urlFrom: a value of a Secret that is the URL; or urlFile: a file on control's machine", ""})
		return
	}
	u, err := url.Parse(n.URL)
	switch {
	case err != nil || len(n.URL) > 2000 || u.Host == "" || u.Opaque != "" || u.Fragment != "" || u.Scheme != "http" && u.Scheme != "https":
		c.fail("url", "", valueError{CodeBadValue, "is no URL that can be posted to", "an http or https URL such as https://hooks.example.com/steer", ""})
	case u.User != nil:
		c.fail("url", "", valueError{CodeSecret, "holds credentials", "authorizationFrom, or urlFrom: a value of a Secret", ""})
	case u.Scheme == "http":
		c.warn("url", "", valueError{CodePlainHTTP, "is not encrypted: what is told is readable on the way", "", ""})
	}
}

// oneSource refuses a key that comes from a file and from a Secret.
func (c *checker) oneSource(fileField, file, refField string, ref *SecretRef) {
	if file != "" && ref != nil && c.sound(fileField, refField) {
		c.fail("", "", valueError{CodeOneOf, "has " + fileField + " and " + refField, "one of them", ""})
	}
}

// fileName checks the name of a file on control's machine. What it holds only control knows.
func (c *checker) fileName(field, name string) {
	switch {
	case name == "":
	case strings.Contains(name, "://"):
		c.fail(field, "", valueError{CodeSecret, "holds a URL, not the name of a file", "the name of a file on control's machine that holds it", ""})
	case len(name) > maxFileName || path.Clean(name) != name || name == "." || name == "/" || name == ".." || strings.HasPrefix(name, "../"):
		c.fail(field, name, valueError{CodeBadValue, "is not the name of a file", "an absolute path such as /etc/steer/hook.key, or one within the data folder such as secrets/hook.key", ""})
	}
}

func (c *checker) notifierHeaders(n *Notifier) {
	if len(n.Headers) > maxHeaders {
		c.fail("headers", "", valueError{CodeOutOfRange, fmt.Sprintf("has %d entries", len(n.Headers)), fmt.Sprintf("at most %d", maxHeaders), ""})
		return
	}
	for _, name := range slices.Sorted(maps.Keys(n.Headers)) {
		at, lower := "headers."+name, strings.ToLower(name)
		switch {
		case checkFormat("token", name) != nil:
			c.fail(at, name, valueError{CodeBadName, "is not the name of a header", formatWords("token"), ""})
		case slices.Contains(secretHeaders, lower):
			c.fail(at, "", valueError{CodeSecret, "would hold a key", "authorizationFrom: a value of a Secret that is the Authorization header", ""})
		case slices.Contains(ownHeaders, lower) || strings.HasPrefix(lower, "steer-"):
			c.fail(at, name, valueError{CodeBadValue, "is set by the program", "other headers", ""})
		case len(name)+len(n.Headers[name]) > maxHeader:
			c.fail(at, "", valueError{CodeOutOfRange, "is too long", fmt.Sprintf("%d bytes with its name", maxHeader), ""})
		case strings.ContainsFunc(n.Headers[name], func(r rune) bool { return r < ' ' || r > '~' }):
			c.fail(at, "", valueError{CodeBadValue, "holds characters that a header cannot", "printable ASCII", ""})
		}
	}
}

// notifiers warns of services that do not exist: a notifier stays behind when a service goes, and must not stop an apply.
func (k *setChecker) notifiers() {
	if !k.whole {
		return
	}
	k.each(func(r *Resource) {
		if r.Notifier == nil {
			return
		}
		for i, name := range r.Notifier.Services {
			if _, ok := k.set.Get(KindService, name); !ok {
				k.warn(r, at("services[%d]", i), name, valueError{CodeUnheard, "is no service, so nothing is told of it", "", names.Nearest(name, k.serviceNames())})
			}
		}
	})
}
