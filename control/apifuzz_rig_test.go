package control

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"time"
)

// maker makes requests from the description: mostly as it says, some broken on purpose.
type maker struct {
	*rand.Rand
	d    *apiDoc
	pool map[string][]string // values that mean something, by the name of a parameter or field
}

// made is one request.
type made struct {
	method, target, body string
	header               [][2]string
	anonymous            bool
}

func (m *maker) pick(list ...string) string { return list[m.IntN(len(list))] }

// chance is true once in n times.
func (m *maker) chance(n int) bool { return m.IntN(n) == 0 }

// nasty are texts that break what is careless.
var nasty = []string{
	"", " ", "\x00", "..", "../..", "%", "%00", "a/b", "'", `"`, "\\", "<script>", "é", "名", "\xff", "\u202e", "null", "-1", "0", "1e999",
	"9223372036854775808", "2562047h47m16.854775808s", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999Z", "*", "a=b", "=", "!",
}

func (m *maker) nasty() string {
	if m.chance(10) {
		return strings.Repeat("x", 1+m.IntN(5000))
	}
	return m.pick(nasty...)
}

// request makes one request of an operation.
func (m *maker) request(op *apiOp) made {
	out := made{method: op.method}
	body := m.body(op)
	path, query, there := op.path, url.Values{}, m.there(op)
	for _, p := range op.params {
		name, in := p["name"].(string), p["in"].(string)
		required := p["required"] == true
		if !required && !m.chance(2) || required && in != "path" && m.chance(20) {
			continue
		}
		value := m.text(name, m.d.deref(p["schema"].(map[string]any)))
		if v, ok := there[name]; ok && in == "path" {
			value = v
		}
		if in == "path" && op.id == "putResource" && !m.chance(5) {
			value = field(body, name, value) // the path says what the body is
		}
		switch in {
		case "path":
			path = strings.Replace(path, "{"+name+"}", url.PathEscape(value), 1)
		case "query":
			query.Add(name, value)
		case "header":
			out.header = append(out.header, [2]string{name, value})
		}
	}
	if m.chance(40) {
		query.Add(m.pick("potato", "cursor", "limit", "", "a b"), m.nasty())
	}
	out.target, out.body = path, body
	if len(query) > 0 {
		out.target += "?" + query.Encode()
	}
	m.spoil(&out, op)
	return out
}

// there gives, two times in three, path parameters that together name something there is.
func (m *maker) there(op *apiOp) map[string]string {
	if m.chance(3) {
		return nil
	}
	rest := strings.TrimPrefix(op.path, "/api/v1/")
	switch first, _, _ := strings.Cut(rest, "/"); {
	case strings.Contains(rest, "{kind}/{name}"):
		pool := m.pool["pair"]
		if op.id == "deleteResource" {
			pool = pool[1:] // the rest is about the service
		}
		kind, name, _ := strings.Cut(m.pick(pool...), "/")
		return map[string]string{"kind": kind, "name": name}
	case first == "nodes":
		return map[string]string{"name": m.pick("fra1", "ams1")}
	case first == "notifiers":
		return map[string]string{"name": "pager"}
	case rest == "api-tokens/{id}":
		return map[string]string{"id": "fuzz"}
	case rest == "tokens/{id}":
		return map[string]string{"id": m.pool["id"][0]}
	}
	return nil
}

// spoil changes what is around a request.
func (m *maker) spoil(out *made, op *apiOp) {
	set := func(name, value string) { out.header = append(out.header, [2]string{name, value}) }
	if op.body != nil {
		set("Content-Type", "application/json")
	}
	switch m.IntN(60) {
	case 0:
		out.anonymous = true
	case 1:
		set("Accept", m.pick("text/html", "application/json;q=0", "*/*", "application/*", "text/plain, application/json, text/event-stream", ";;", m.nasty()))
	case 2:
		set("Content-Type", m.pick("text/plain", "application/x-yaml", "application/json; charset=utf-8", "application/json;x", "", m.nasty()))
	case 3:
		out.method = m.pick("HEAD", "PATCH", "OPTIONS", "PUT", "DELETE", "POST", "GET", "TRACE", "POTATO")
	case 4:
		out.target += m.pick("/", "//", "/..", "/.", "?", "?%zz", "?a;b", "?"+strings.Repeat("a=b&", 200))
	case 5:
		set("Host", m.pick("evil.example.com", "localhost", "[::1]:7070", "", "a b"))
	case 6:
		if op.method == "GET" {
			out.method = "HEAD"
		}
	}
}

// field reads a text out of a JSON object.
func field(body, name, otherwise string) string {
	var v map[string]any
	if json.Unmarshal([]byte(body), &v) != nil {
		return otherwise
	}
	if s, ok := v[name].(string); ok {
		return s
	}
	return otherwise
}

// body makes a body: the example, the example with one thing broken, one made of the schema, or no JSON at all.
func (m *maker) body(op *apiOp) string {
	if op.body == nil {
		if m.chance(30) {
			return m.pick("{}", "x", strings.Repeat("y", 100_000))
		}
		return ""
	}
	var v any
	switch m.IntN(8) {
	case 0, 1, 2:
		v = op.example
	case 3, 4:
		v = m.damage(clone(op.example))
	case 5, 6:
		v = m.value("", op.body, 0)
	default:
		return m.pick("", "{", "null", "[]", "1", `"x"`, "{}", `{"a":1}{`, `{"a":`+strings.Repeat("[", 20_000), "\xff\xfe", strings.Repeat(" ", 2<<20))
	}
	b, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(b)
}

func clone(v any) any {
	b, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	var out any
	if json.Unmarshal(b, &out) != nil {
		return nil
	}
	return out
}

// damage breaks one thing somewhere in a value.
func (m *maker) damage(v any) any {
	switch v := v.(type) {
	case map[string]any:
		keys := slices.Sorted(maps.Keys(v))
		if len(keys) > 0 && !m.chance(4) {
			k := keys[m.IntN(len(keys))]
			if m.chance(4) {
				delete(v, k)
			} else {
				v[k] = m.damage(v[k])
			}
			return v
		}
		if m.chance(2) {
			v[m.nasty()] = m.anything(0)
			return v
		}
	case []any:
		if len(v) > 0 && !m.chance(4) {
			i := m.IntN(len(v))
			v[i] = m.damage(v[i])
			return v
		}
	case string:
		if m.chance(2) {
			return m.nasty()
		}
	}
	return m.anything(0)
}

// anything is any JSON value.
func (m *maker) anything(depth int) any {
	switch n := m.IntN(8); {
	case n == 0 && depth < 3:
		return []any{m.anything(depth + 1), m.anything(depth + 1)}
	case n == 1 && depth < 3:
		return map[string]any{m.nasty(): m.anything(depth + 1), "name": m.anything(depth + 1)}
	case n == 2:
		return m.Float64() * 1e18
	case n == 3:
		return m.IntN(2000) - 1000
	case n == 4:
		return m.chance(2)
	case n == 5:
		return nil
	}
	return m.nasty()
}

// text is the value of a parameter.
func (m *maker) text(name string, schema map[string]any) string {
	if m.chance(12) {
		return m.nasty()
	}
	return fmt.Sprint(m.value(name, schema, 0))
}

// value makes a value by a schema.
func (m *maker) value(name string, schema map[string]any, depth int) any {
	schema = m.d.deref(schema)
	if pool := m.pool[name]; len(pool) > 0 && schema["type"] == "string" && !m.chance(8) {
		return m.pick(pool...)
	}
	if enum, ok := schema["enum"].([]any); ok && !m.chance(10) {
		return enum[m.IntN(len(enum))]
	}
	switch schema["type"] {
	case "string":
		return m.string(schema)
	case "integer":
		if pool := m.pool[name]; len(pool) > 0 && !m.chance(4) {
			return json.Number(m.pick(pool...))
		}
		return json.Number(m.pick("1", "2", "10", "100", "1000", "1001", "0", "-1", "9007199254740993", "9223372036854775807"))
	case "number":
		return m.Float64() * 100
	case "boolean":
		return m.chance(2)
	case "array":
		out := []any{}
		for range m.IntN(4) {
			out = append(out, m.value(name, schema["items"].(map[string]any), depth+1))
		}
		return out
	case "object":
		return m.object(schema, depth)
	}
	return m.anything(depth)
}

func (m *maker) string(schema map[string]any) string {
	if schema["format"] == "date-time" {
		return time.Date(2026, 1, 2, 3, m.IntN(120)-60, 0, m.IntN(1e9), time.UTC).Format(time.RFC3339Nano)
	}
	if n, ok := schema["maxLength"].(json.Number); ok && m.chance(6) {
		if max, err := n.Int64(); err == nil {
			return strings.Repeat("a", int(max)+m.IntN(3)-1)
		}
	}
	return m.pick("a", "shop", "1h", "30m", "x y", "-5s", "ipv4", "ipv6", "dns", m.nasty())
}

func (m *maker) object(schema map[string]any, depth int) any {
	out := map[string]any{}
	props, _ := schema["properties"].(map[string]any)
	required, _ := schema["required"].([]any)
	for _, name := range slices.Sorted(maps.Keys(props)) {
		if need := slices.Contains(required, any(name)); need && !m.chance(15) || !need && m.chance(3) && depth < 5 {
			out[name] = m.value(name, props[name].(map[string]any), depth+1)
		}
	}
	if more, ok := schema["additionalProperties"].(map[string]any); ok {
		for range m.IntN(3) {
			out[m.pick("region", "a", m.nasty())] = m.value("", more, depth+1)
		}
	}
	if m.chance(20) {
		out[m.nasty()] = m.anything(depth)
	}
	return out
}
