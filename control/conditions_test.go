package control

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"steerpoint/control/api"
	"steerpoint/spec"
)

// TestConditions proves how conditional headers are read and compared, as RFC 9110 says.
// Covers: issue4 etag
func TestConditions(t *testing.T) {
	const bad = -1
	for _, c := range []struct {
		ifMatch, ifNoneMatch string
		revision             int64
		want                 int // status; 0: goes on
	}{
		{"", "", 42, 0},
		{`"42"`, "", 42, 0},
		{`42`, "", 42, 0},
		{`"42"`, "", 43, 412},
		{`"42"`, "", 0, 412},
		{`*`, "", 42, 0},
		{`*`, "", 0, 412},
		{`W/"42"`, "", 42, 412},
		{`"41", "42"`, "", 42, 0},
		{`"41","43"`, "", 42, 412},
		{`"41" , W/"42" , "42"`, "", 42, 0},
		{`"a b,c", "42"`, "", 42, 0},
		{`"potato"`, "", 42, 412},
		{`"042"`, "", 42, 412},
		{`"-1"`, "", 42, 412},
		{`potato`, "", 42, bad},
		{`"42`, "", 42, bad},
		{`"42" "43"`, "", 42, bad},
		{`"42", *`, "", 42, bad},
		{`W/`, "", 42, bad},
		{`""`, "", 42, bad},
		{`,`, "", 42, bad},
		{"", `"42"`, 42, 412},
		{"", `W/"42"`, 42, 412},
		{"", `"41"`, 42, 0},
		{"", `*`, 42, 412},
		{"", `*`, 0, 0},
		{"", `"41", W/"42"`, 42, 412},
		{"", `x`, 42, bad},
		{`"42"`, `"41"`, 42, 0},
		{`"42"`, `"42"`, 42, 412},
	} {
		in := Conditions{IfMatch: c.ifMatch, IfNoneMatch: IfNoneMatch{c.ifNoneMatch}}
		err := in.check("service shop", c.revision)
		switch {
		case c.want == 0:
			if err != nil {
				t.Errorf("If-Match %q, If-None-Match %q at %d: %v", c.ifMatch, c.ifNoneMatch, c.revision, err)
			}
		case c.want == bad:
			wantCode(t, c.ifMatch+c.ifNoneMatch, err, http.StatusUnprocessableEntity, api.CodeBadRequest)
		default:
			wantCode(t, c.ifMatch+c.ifNoneMatch, err, c.want, api.CodePreconditionFailed)
		}
	}
	for header, want := range map[string]bool{"": false, "*": true, `"42"`: true, `W/"42"`: true, `"41", W/"42"`: true, `"41"`: false} {
		if got, err := (&IfNoneMatch{header}).unchanged(42); err != nil || got != want {
			t.Errorf("If-None-Match %q: unchanged %v, %v", header, got, err)
		}
	}
}

// TestReadWithETag proves that a reader that has the newest gets 304 without a body, for a resource and for a list, and
// the rest of it anew after a write.
// Covers: issue4 etag
func TestReadWithETag(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	r.apply(zoneYAML, shopYAML)
	for _, path := range []string{"/api/v1/resources/zone/gslb", "/api/v1/resources/zone?limit=1"} {
		status, h, _ := r.raw("GET", path, "", "")
		tag := h.Get("ETag")
		if status != 200 || tag == "" {
			t.Fatalf("%s: %d, ETag %q", path, status, tag)
		}
		for _, header := range []string{tag, "W/" + tag, "*", `"1", ` + tag} {
			status, h, b := r.raw("GET", path, "", "", "If-None-Match", header)
			if status != 304 || len(b) != 0 || h.Get("ETag") != tag {
				t.Errorf("%s, If-None-Match %s: %d, ETag %q, %q", path, header, status, h.Get("ETag"), b)
			}
		}
		if status, _, b := r.raw("GET", path, "", "", "If-None-Match", `"1"`); status != 200 || !strings.Contains(string(b), "gslb.example.net") {
			t.Errorf("%s with another's ETag: %d %s", path, status, b)
		}
		if status, _, b := r.raw("GET", path, "", "", "If-None-Match", `x`); status != 422 {
			t.Errorf("%s with no ETag: %d %s", path, status, b)
		}
		r.apply(strings.Replace(zoneYAML, "192.0.2.53", "192.0.2.54", 1))
		if status, h, _ := r.raw("GET", path, "", "", "If-None-Match", tag); status != 200 || h.Get("ETag") == tag {
			t.Errorf("%s after a write: %d, ETag %q", path, status, h.Get("ETag"))
		}
		r.apply(zoneYAML)
	}
	if status, _, _ := r.raw("GET", "/api/v1/resources/zone/nope", "", "", "If-None-Match", "*"); status != 404 {
		t.Errorf("what is not there, with If-None-Match *: %d", status)
	}
	if status, _, b := r.raw("GET", "/api/v1/resources/zone/gslb", "", "", "If-Match", `"1"`); status != 412 {
		t.Errorf("a reader with If-Match of an old revision: %d %s", status, b)
	}
}

// TestWriteWithETag proves that writes keep to their conditions, each header as RFC 9110 says.
// Covers: issue4 etag
func TestWriteWithETag(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	r.apply(zoneYAML)
	const path = "/api/v1/resources/zone/gslb"
	document := func() string {
		_, _, b := r.raw("GET", path, "", "")
		_, rest, _ := strings.Cut(string(b), `"document":`)
		return strings.TrimSuffix(strings.TrimSpace(rest), "}")
	}
	_, h, _ := r.raw("GET", path, "", "")
	tag := h.Get("ETag")
	for _, c := range []struct {
		name, header, value string
		want                int
	}{
		{"an old ETag", "If-Match", `"1"`, 412},
		{"a weak ETag", "If-Match", "W/" + tag, 412},
		{"none of its ETags", "If-None-Match", tag, 412},
		{"not there yet", "If-None-Match", "*", 412},
		{"a list with its ETag", "If-Match", `"1", ` + tag, 200},
		{"anything", "If-Match", "*", 200},
	} {
		status, h, b := r.raw("PUT", path, "application/json", document(), c.header, c.value)
		if status != c.want || status == 200 && h.Get("ETag") == "" {
			t.Errorf("PUT, %s: %d %s", c.name, status, b)
		}
	}
	if status, _, b := r.raw("PUT", "/api/v1/resources/zone/other", "application/json", strings.Replace(zoneYAML, "name: gslb", "name: other", 1), "If-Match", "*"); status != 412 {
		t.Errorf("PUT of a new one with If-Match *: %d %s", status, b)
	}
	if status, _, b := r.raw("DELETE", path, "", "", "If-Match", `"1"`); status != 412 {
		t.Errorf("DELETE of an old revision: %d %s", status, b)
	}
	if status, _, b := r.raw("DELETE", path, "", "", "If-Match", "*"); status != 204 || len(b) != 0 {
		t.Errorf("DELETE of any: %d %s", status, b)
	}
}

// TestCreateAtOnce proves that of several that put a new name at the same time, without a condition, one creates it and every
// other one is told that it exists.
func TestCreateAtOnce(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	for _, name := range []string{"a", "b", "c", "d"} {
		path := "/api/v1/resources/zone/" + name
		var all sync.WaitGroup
		var mu sync.Mutex
		var tag, created string
		writers := map[int]int{} // by the status they got
		for i := range 6 {
			all.Go(func() {
				address := fmt.Sprintf("192.0.2.%d", 100+i)
				status, h, b := r.raw("PUT", path, "application/json", strings.Replace(zoneNamed(name, ""), "192.0.2.53", address, 1))
				mu.Lock()
				defer mu.Unlock()
				writers[status]++
				switch {
				case status == http.StatusOK:
					tag, created = h.Get("ETag"), string(b)
					if !strings.Contains(created, address) {
						t.Errorf("%s: who wrote %s is answered %s", name, address, b)
					}
				case !strings.Contains(string(b), api.CodePreconditionNeeded):
					t.Errorf("%s: %d %s", name, status, b)
				}
			})
		}
		all.Wait()
		if writers[http.StatusOK] != 1 || writers[http.StatusPreconditionRequired] != 5 {
			t.Errorf("%s: writers by status: %v", name, writers)
		}
		if _, h, b := r.raw("GET", path, "", ""); h.Get("ETag") != tag || string(b) != created {
			t.Errorf("%s: what is read is %s %s, what was written %s %s", name, h.Get("ETag"), b, tag, created)
		}
	}
}

// TestWriterSeesItsOwn proves that a writer is answered with the revision it wrote, and not with one that somebody else has
// written since; also where the write changed nothing.
func TestWriterSeesItsOwn(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	r.apply(zoneYAML)
	docs, errs := spec.Parse("", []byte(strings.Replace(zoneYAML, "192.0.2.53", "192.0.2.54", 1)))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	var own [2]*planned
	for i := range own { // the second one has nothing to change
		var err error
		if own[i], err = r.commit(t.Context(), &change{docs: docs, actor: "anna"}); err != nil {
			t.Fatal(err)
		}
	}
	wrote := own[0].plan.Revision
	r.apply(strings.Replace(zoneYAML, "192.0.2.53", "192.0.2.55", 1))
	for i, p := range own {
		out, err := output(p.result(spec.KindZone, "gslb"))
		if err != nil || out.Body.Revision != wrote || out.ETag != api.ETag(wrote) || out.Body.Actor != "anna" || !strings.Contains(string(out.Body.Document), "192.0.2.54") {
			t.Errorf("write %d: %+v, %v; want revision %d", i, out, err, wrote)
		}
	}
}
