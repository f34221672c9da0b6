package spec

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write golden files and docs instead of comparing")

// Every kind of mistake has a file with it and the findings a person sees. A file that begins with "# complete" is
// checked as the whole configuration, the others as a part of it.
//
// Covers: field 18, field 24, field 31, field 38, field 39, field 65, issue2 bad input, rfc 2181 targets, rfc 4592 no delegation, rfc 9460 hints, rfc 1034 cname alone, rfc 2181 one ttl
func TestBadFilesGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.*")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, file := range files {
		if strings.HasSuffix(file, ".golden") {
			continue
		}
		seen++
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := findings(filepath.Base(file), data)
			if got == "" {
				t.Error("nothing is wrong with a bad file")
			}
			golden(t, strings.TrimSuffix(file, filepath.Ext(file))+".golden", []byte(got))
		})
	}
	if seen < 50 {
		t.Errorf("%d bad files", seen)
	}
}

func findings(name string, data []byte) string {
	docs, errs := Parse(name, data)
	whole := Completeness(bytes.HasPrefix(data, []byte("# complete\n")))
	more, warns := NewSet(docs).Check(whole)
	errs = append(errs, more...)
	errs.sort()
	var b strings.Builder
	for _, e := range errs {
		b.WriteString(e.Error() + "\n")
	}
	for _, w := range warns {
		b.WriteString("warning: " + w.String() + "\n")
	}
	return b.String()
}

// golden compares with a file, or writes it with -update.
func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got; -update writes it):\n%s", file, diff)
	}
}
