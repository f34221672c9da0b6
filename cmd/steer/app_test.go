package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"steerpoint/cmd/steer/internal/fault"
	"steerpoint/control/api"
)

// server answers as control would, from one handler a path, and gives its address as the environment does.
func server(t *testing.T, handlers map[string]http.HandlerFunc) {
	t.Helper()
	mux := http.NewServeMux()
	for pattern, h := range handlers {
		mux.HandleFunc(pattern, h)
	}
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	t.Setenv("STEER_SERVER", s.URL)
	t.Setenv("STEER_TOKEN", "t")
	t.Setenv("STEER_DATA", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", t.TempDir()) // a login of whoever runs the test is none of it
}

// steer runs one command line.
func steer(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e strings.Builder
	code = run(t.Context(), args, strings.NewReader(""), &o, &e)
	return code, o.String(), e.String()
}

func refuse(p api.Problem) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(p.Status)
		_ = json.NewEncoder(w).Encode(p) // the client has gone: the test fails on its answer
	}
}

func answer(v any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v) // as above
	}
}

// What the server says no to ends in the exit code of its kind: what was written (2), what was asked about (1), or
// the server's own will (3); with no server it is 4.
// Covers: issue2 exit codes
func TestExitCodes(t *testing.T) {
	for _, tt := range []struct {
		code   string
		status int
		exit   int
	}{
		{api.CodeInvalid, 422, fault.ExitBadInput},
		{api.CodeBadRequest, 400, fault.ExitBadInput},
		{api.CodeNotFound, 404, fault.ExitNotSo},
		{api.CodeUnauthorized, 401, fault.ExitRefused},
		{api.CodeConflict, 409, fault.ExitRefused},
		{api.CodeStoreUnavailable, 503, fault.ExitRefused},
		{api.CodeInternal, 500, fault.ExitRefused},
	} {
		server(t, map[string]http.HandlerFunc{"/api/v1/status": refuse(api.Problem{Title: "No", Status: tt.status, Code: tt.code})})
		code, _, errs := steer(t, "status")
		if code != tt.exit || !strings.Contains(errs, tt.code) {
			t.Errorf("%s: exit %d, want %d: %s", tt.code, code, tt.exit, errs)
		}
	}
	t.Setenv("STEER_SERVER", "http://127.0.0.1:1")
	if code, _, _ := steer(t, "status"); code != fault.ExitNoServer {
		t.Errorf("no server: exit %d", code)
	}
	t.Setenv("STEER_SERVER", "")
	if code, _, errs := steer(t, "status"); code != fault.ExitNoServer || !strings.Contains(errs, "SERVER_UNKNOWN") {
		t.Errorf("no server known: exit %d: %s", code, errs)
	}
}

// Every mistake of a refused request is one line.
func TestMistakesAreLines(t *testing.T) {
	server(t, map[string]http.HandlerFunc{"/api/v1/plan": refuse(api.Problem{Title: "Not valid", Status: 422, Code: api.CodeInvalid, Errors: []api.ProblemItem{
		{Code: "SPEC_BAD_VALUE", Message: "mode: fast is not a mode", Location: "a.yaml:3"},
		{Code: "SPEC_UNDEFINED", Message: "edge b is not defined", Location: "a.yaml:9"},
	}})})
	code, _, errs := steer(t, "apply", "-f", "testdata/one.yaml")
	want := `steer: 2 mistakes in 1 file; nothing was changed [INVALID]
  why: a.yaml:3: mode: fast is not a mode [SPEC_BAD_VALUE]
  why: a.yaml:9: edge b is not defined [SPEC_UNDEFINED]
`
	if code != fault.ExitBadInput || errs != want {
		t.Errorf("exit %d:\n%s\nwant\n%s", code, errs, want)
	}
}

// What apply writes is what it showed: the plan's base goes with it, and a write in between refuses it.
func TestApplyIsWhatWasShown(t *testing.T) {
	var base atomic.Int64
	server(t, map[string]http.HandlerFunc{
		"/api/v1/plan": answer(api.Plan{Base: 41, Changes: []api.Change{{Action: api.ActionCreate, Kind: "Zone", Name: "z"}}}),
		"/api/v1/apply": func(w http.ResponseWriter, r *http.Request) {
			var q api.ApplyRequest
			if err := json.NewDecoder(r.Body).Decode(&q); err == nil {
				base.Store(q.Base)
			}
			refuse(api.Problem{Title: "Somebody wrote in between", Status: 409, Code: api.CodeConflict})(w, r)
		},
	})
	code, out, errs := steer(t, "apply", "-f", "testdata/one.yaml")
	if code != fault.ExitRefused || base.Load() != 41 || !strings.Contains(out, "+ zone z") || !strings.Contains(errs, "steer plan") {
		t.Errorf("exit %d, base %d\n%s%s", code, base.Load(), out, errs)
	}
}

// A watch outlives a server that goes away: it goes on after the last event it has seen.
func TestWatchGoesOn(t *testing.T) {
	var calls atomic.Int32
	server(t, map[string]http.HandlerFunc{
		"/api/v1/version": answer(api.Version{}),
		"/api/v1/watch": func(w http.ResponseWriter, r *http.Request) {
			n := calls.Add(1)
			if n == 3 {
				refuse(api.Problem{Title: "Enough", Status: 401, Code: api.CodeUnauthorized})(w, r)
				return
			}
			fmt.Fprintf(w, "data: {\"id\": %d, \"kind\": \"config\", \"message\": \"after %s\"}\n\n", n, r.Header.Get("Last-Event-ID"))
		},
	})
	code, out, errs := steer(t, "watch", "-o", "json")
	if code != fault.ExitRefused || !strings.Contains(out, `"message":"after "`) || !strings.Contains(out, `"message":"after 1"`) {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	if strings.Count(errs, "the server went away") != 2 {
		t.Errorf("said:\n%s", errs)
	}
}

// A switch log of several pages is read whole, and cut at --limit.
func TestSwitchesPages(t *testing.T) {
	server(t, map[string]http.HandlerFunc{"/api/v1/switches": func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("cursor") == "" {
			answer(api.SwitchPage{Switches: []api.Switch{{ID: "3"}, {ID: "2"}}, Next: "c"})(w, r)
			return
		}
		answer(api.SwitchPage{Switches: []api.Switch{{ID: "1"}}})(w, r)
	}})
	for args, want := range map[string]int{"switches -o json": 3, "switches -o json --limit 2": 2} {
		_, out, errs := steer(t, strings.Fields(args)...)
		var list []api.Switch
		if err := json.Unmarshal([]byte(out), &list); err != nil || len(list) != want {
			t.Errorf("%s: %d entries, want %d: %v\n%s", args, len(list), want, err, errs)
		}
	}
}

// YAML output has the names and the order of the JSON, in block style.
func TestYAMLOf(t *testing.T) {
	got, err := yamlOf([]byte(`{"b": {"x": [1, "two"]}, "a": "yes", "e": []}`))
	want := "b:\n    x:\n        - 1\n        - two\na: \"yes\"\ne: []\n"
	if err != nil || string(got) != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}

// A pipe gets no colour.
func TestNoColourInAPipe(t *testing.T) {
	server(t, map[string]http.HandlerFunc{"/api/v1/status": answer(api.Status{Alarms: []api.Alarm{{Code: "ALARM_FROZEN"}}})})
	if _, out, _ := steer(t, "status"); strings.Contains(out, "\x1b") || !strings.Contains(out, "ALARM_FROZEN") {
		t.Errorf("got %q", out)
	}
}
