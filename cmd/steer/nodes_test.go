package main

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"steerpoint/cmd/steer/internal/fault"
	"steerpoint/control/api"
)

// heard collects the bodies of requests by method and path.
type heard struct {
	mu   sync.Mutex
	list map[string]string
}

func (h *heard) take(v any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var body json.RawMessage
		_ = json.NewDecoder(r.Body).Decode(&body) // a request without a body has none
		h.mu.Lock()
		if h.list == nil {
			h.list = map[string]string{}
		}
		h.list[r.Method+" "+r.URL.Path] = string(body)
		h.mu.Unlock()
		answer(v)(w, r)
	}
}

func (h *heard) body(t *testing.T, key string) map[string]any {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	text, ok := h.list[key]
	if !ok {
		t.Fatalf("%s was not asked; asked was %v", key, h.list)
	}
	var m map[string]any
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatalf("%s: %v in %s", key, err, text)
	}
	return m
}

// A token alone goes to standard output, with what it is for beside it; -o json has both in one value.
// Covers: issue3 token
func TestTokenCreate(t *testing.T) {
	var h heard
	server(t, map[string]http.HandlerFunc{
		"/api/v1/tokens": h.take(api.TokenCreated{Token: "a.b.c", View: api.TokenView{ID: "a", Roles: []string{"dns", "probe"}, Name: "ns1"}}),
		"/api/v1/status": answer(api.Status{Listeners: map[string]string{"nodes": "[::]:7072"}}),
	})
	code, out, errs := steer(t, "token", "create", "--role", "dns,probe", "--name", "ns1", "--for", "10m")
	if code != 0 || out != "a.b.c\n" || !strings.Contains(errs, "for one node with the roles dns, probe") ||
		!strings.Contains(errs, "steer node --roles dns,probe --join https://HOST:7072 --token FILE --name ns1") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	want := map[string]any{"roles": []any{"dns", "probe"}, "name": "ns1", "for": "10m"}
	if d := cmp.Diff(want, h.body(t, "POST /api/v1/tokens")); d != "" {
		t.Error(d)
	}
	code, out, errs = steer(t, "token", "create", "--role", "dns", "-o", "json")
	var made api.TokenCreated
	if err := json.Unmarshal([]byte(out), &made); code != 0 || err != nil || made.Token != "a.b.c" || errs != "" {
		t.Errorf("exit %d, %v\n%s%s", code, err, out, errs)
	}
}

// A token for a control that takes no nodes is made, and that is said.
func TestTokenWithoutListener(t *testing.T) {
	server(t, map[string]http.HandlerFunc{
		"/api/v1/tokens": answer(api.TokenCreated{Token: "a.b.c", View: api.TokenView{ID: "a", Roles: []string{"dns"}}}),
		"/api/v1/status": answer(api.Status{}),
	})
	if code, out, errs := steer(t, "token", "create", "--role", "dns"); code != 0 || out != "a.b.c\n" || !strings.Contains(errs, "takes no nodes yet") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
}

// Only the ID of a token goes into the request, also when the whole of it was given.
func TestTokenRevoke(t *testing.T) {
	var h heard
	server(t, map[string]http.HandlerFunc{"DELETE /api/v1/tokens/0123456789": h.take(struct{}{})})
	if code, out, errs := steer(t, "token", "revoke", "0123456789.secret.hash"); code != 0 || out != "token 0123456789 is revoked\n" ||
		!strings.Contains(errs, "only the first part") || strings.Contains(errs, "secret") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
}

// Drain and undrain tell edges, nodes and points apart.
// Covers: issue3 drain
func TestDrainTargets(t *testing.T) {
	for target, want := range map[string]map[string]any{
		"shop/east": {"edge": "shop/east"}, "tokyo": {"node": "tokyo"}, "local": {"point": "local"},
	} {
		var h heard
		server(t, map[string]http.HandlerFunc{
			"/api/v1/nodes":   answer(api.NodeList{Nodes: []api.NodeView{{Name: "tokyo"}}}),
			"/api/v1/drain":   h.take(api.OverrideResult{}),
			"/api/v1/undrain": h.take(api.OverrideResult{}),
		})
		if code, _, errs := steer(t, "drain", target, "--for", "1h", "--reason", "r"); code != 0 {
			t.Fatalf("%s: exit %d\n%s", target, code, errs)
		}
		if code, _, errs := steer(t, "undrain", target); code != 0 {
			t.Fatalf("%s: exit %d\n%s", target, code, errs)
		}
		for _, path := range []string{"POST /api/v1/drain", "POST /api/v1/undrain"} {
			got := h.body(t, path)
			delete(got, "for")
			delete(got, "reason")
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s %s:\n%s", path, target, d)
			}
		}
	}
}

func TestLabelChange(t *testing.T) {
	for _, tt := range []struct {
		args   []string
		set    map[string]string
		remove []string
	}{
		{[]string{"city=Tokyo", "isp-"}, map[string]string{"city": "Tokyo"}, []string{"isp"}},
		{[]string{"note=a=b-"}, map[string]string{"note": "a=b-"}, nil},
		{[]string{"a-b=c", "a-b-"}, map[string]string{"a-b": "c"}, []string{"a-b"}},
	} {
		r, err := labelChange(tt.args)
		if err != nil || cmp.Diff(tt.set, r.Set) != "" || !slices.Equal(tt.remove, r.Remove) {
			t.Errorf("%v: %+v, %v", tt.args, r, err)
		}
	}
	for _, bad := range []string{"city", "=x", "city=", "-", ""} {
		if _, err := labelChange([]string{bad}); fault.Exit(err) != fault.ExitBadInput {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestJoinAddress(t *testing.T) {
	for listener, want := range map[string]string{
		"[::]:7072": "HOST:7072", "0.0.0.0:7072": "HOST:7072", ":7072": "HOST:7072", "10.0.0.1:7072": "10.0.0.1:7072", "[2001:db8::1]:1": "[2001:db8::1]:1",
	} {
		if got := joinAddress(listener); got != want {
			t.Errorf("%s: %s, want %s", listener, got, want)
		}
	}
}

// The exit code of a command about a node that does not exist is 1, and a refusal without a reason never leaves.
func TestNodeCommands(t *testing.T) {
	var h heard
	server(t, map[string]http.HandlerFunc{
		"POST /api/v1/nodes/n1/revoke": h.take(api.NodeView{Name: "n1", State: api.NodeRevoked, Roles: []string{"dns"}}),
		"DELETE /api/v1/nodes/n2":      refuse(api.Problem{Title: "Not found", Status: 404, Code: api.CodeNotFound, Detail: "no node is named n2"}),
	})
	if code, out, errs := steer(t, "node", "revoke", "n1", "--reason", "lost"); code != 0 || !strings.HasPrefix(out, "n1  revoked  dns") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	if got := h.body(t, "POST /api/v1/nodes/n1/revoke"); got["reason"] != "lost" {
		t.Errorf("asked %v", got)
	}
	if code, _, errs := steer(t, "node", "revoke", "n1"); code != fault.ExitBadInput || !strings.Contains(errs, "no reason") {
		t.Errorf("without a reason: exit %d\n%s", code, errs)
	}
	if code, _, errs := steer(t, "node", "remove", "n2"); code != fault.ExitNotSo || !strings.Contains(errs, "no node is named n2") {
		t.Errorf("exit %d\n%s", code, errs)
	}
}
