package settings

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

// docs/edge.md names every setting of the gateway.
//
// Covers: issue6 options
func TestEdgeSettingsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/edge.md")
	if err != nil {
		t.Fatal(err)
	}
	var walk func(typ reflect.Type)
	walk = func(typ reflect.Type) {
		for i := range typ.NumField() {
			f := typ.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
			if name != "" && !strings.Contains(string(page), name) {
				t.Errorf("edge.%s is not in docs/edge.md", name)
			}
			if f.Type.Kind() == reflect.Struct && f.Type.NumField() > 0 && f.Type.Field(0).Tag.Get("yaml") != "" {
				walk(f.Type)
			}
		}
	}
	walk(reflect.TypeFor[Edge]())
}
