package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestIndexListsEachModuleOnce(t *testing.T) {
	in, out := t.TempDir(), t.TempDir()
	write(t, in, "GO-1.json", `{"id":"GO-1","modified":"2026-01-02T00:00:00Z","aliases":["CVE-1"],"affected":[
		{"package":{"name":"m/b"}},{"package":{"name":"m/b"}},{"package":{"name":"m/a"}}]}`)
	write(t, in, "GO-2.json", `{"id":"GO-2","modified":"2026-01-03T00:00:00Z","affected":[{"package":{"name":"m/a"}}]}`)
	if n, err := build(in, out); err != nil || n != 2 {
		t.Fatalf("have %d, %v; want 2 records", n, err)
	}
	want := map[string]string{
		"index/db.json": `{"modified":"2026-01-03T00:00:00Z"}`,
		"index/modules.json": `[{"path":"m/a","vulns":[{"id":"GO-1","modified":"2026-01-02T00:00:00Z"},{"id":"GO-2","modified":"2026-01-03T00:00:00Z"}]},` +
			`{"path":"m/b","vulns":[{"id":"GO-1","modified":"2026-01-02T00:00:00Z"}]}]`,
		"index/vulns.json": `[{"id":"GO-1","modified":"2026-01-02T00:00:00Z","aliases":["CVE-1"]},{"id":"GO-2","modified":"2026-01-03T00:00:00Z"}]`,
	}
	for name, text := range want {
		got, err := os.ReadFile(filepath.Join(out, name))
		if err != nil || string(got) != text {
			t.Errorf("%s: %v\nhave %s\nwant %s", name, err, got, text)
		}
	}
}

func TestBadRecordsAreNamed(t *testing.T) {
	in := t.TempDir()
	if _, err := build(in, t.TempDir()); err == nil {
		t.Error("an empty folder of records: no error")
	}
	write(t, in, "GO-1.json", `{"id":"GO-9"}`)
	if _, err := build(in, t.TempDir()); err == nil {
		t.Error("a record under another's name: no error")
	}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
