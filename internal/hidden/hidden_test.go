package hidden

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"text/template"
)

const planted = "pl4nted-text"

type inside struct {
	Open   Text
	closed Text
	list   []Text
	byName map[string]Text
	any    any
}

// TestNothingShows prints, encodes and logs a hidden text in every way there is, by itself and deep inside other values:
// what comes out never holds it.
//
// Covers: issue4 secrets sealed
func TestNothingShows(t *testing.T) {
	x := New(planted)
	deep := &inside{x, x, []Text{x}, map[string]Text{"a": x}, x}
	var all strings.Builder
	for _, v := range []any{x, &x, []Text{x}, map[string]Text{"k": x}, *deep, deep, []any{deep}, errors.Join(fmt.Errorf("bad %v", x), fmt.Errorf("%w", errors.New(x.String())))} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T", "%p", "%08.3f", "%U"} {
			fmt.Fprintf(&all, verb+"\n", v)
		}
		if b, err := json.Marshal(v); err == nil {
			all.Write(b)
		}
		for _, h := range []slog.Handler{slog.NewTextHandler(&all, nil), slog.NewJSONHandler(&all, nil)} {
			slog.New(h).Info("said", "value", v, slog.Group("g", "v", v))
		}
		var b bytes.Buffer
		_ = gob.NewEncoder(&b).Encode(v) // most cannot be encoded; those that can must not hold it
		all.Write(b.Bytes())
	}
	if err := template.Must(template.New("").Parse("{{.}} {{.Open}} {{printf \"%#v\" .}}")).Execute(&all, deep); err != nil {
		t.Fatal(err)
	}
	if s := all.String(); strings.Contains(s, planted) || strings.Contains(s, fmt.Sprintf("%x", planted)) {
		t.Errorf("it shows:\n%s", s)
	}
	if !strings.Contains(all.String(), Mark) {
		t.Error("and nothing says that something is hidden")
	}
	if x.Reveal() != planted || x.Len() != len(planted) {
		t.Error("the text itself is lost")
	}
}

// TestEqual compares texts and takes one in.
//
// Covers: issue4 secrets sealed
func TestEqual(t *testing.T) {
	var zero, in Text
	if err := in.UnmarshalText([]byte(planted)); err != nil {
		t.Fatal(err)
	}
	if !in.Equal(New(planted)) || in.Equal(New(planted+"x")) || in.Equal(zero) || !zero.Equal(New("")) || zero.Len() != 0 {
		t.Error("texts do not compare by what they hold")
	}
	var back struct{ V Text }
	if err := json.Unmarshal([]byte(`{"V":"`+planted+`"}`), &back); err != nil || !back.V.Equal(in) {
		t.Errorf("JSON is not read: %v", err)
	}
}
